"""The transformer as it serves on a CPU: one world at a time, fp32, as few kernels and as little Python as
it takes.

The module (`engine.transformer.model`) is the readable form, and the oracle that the tests hold this one
to. Here the weights are laid out once: q, k and v in one product, weights transposed, no module calls, no
casts, one kernel where LN, scale and shift are the same for all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attention.layer import Attention
from engine.transformer.affine import Affine
from engine.transformer.block import Block, LayerCache
from engine.transformer.injection import Injectors
from engine.transformer.laid_out import LaidOut
from engine.transformer.model import BlockInputs, TextKV, WorldTransformer
from engine.transformer.modulation import LayerModulation, Modulation
from engine.transformer.patches import features_last, patchify_last, unpatchify
from engine.transformer.rope import RotaryGrid


@dataclass(frozen=True, slots=True, eq=False)
class ServingLayer:
    """One block's weights."""

    heads: int
    eps: float
    eps_tensor: Tensor  # [1]
    share: float  # 1 / D
    qkv: Affine
    norm_qk: Tensor  # [2, D]
    attend: Attention
    out: Affine
    norm3_weight: Tensor
    norm3_bias: Tensor
    cross_q: Affine
    cross_norm: Tensor
    cross_attend: Attention
    cross_out: Affine
    ffn_in: Affine
    ffn_out: Affine

    @classmethod
    def of(cls, block: Block) -> ServingLayer:
        """Lay a block's weights out."""
        own, cross = block.self_attn, block.cross_attn
        wide, narrow = block.ffn[0], block.ffn[2]
        assert isinstance(wide, torch.nn.Linear)
        assert isinstance(narrow, torch.nn.Linear)
        dim = own.norm_q.weight.shape[0]
        return cls(
            heads=own.heads,
            eps=block.eps,
            eps_tensor=own.norm_q.weight.new_full((1,), block.eps),
            share=1.0 / dim,
            qkv=Affine.of(own.q, own.k, own.v),
            norm_qk=torch.stack([own.norm_q.weight, own.norm_k.weight]),
            attend=own.attend,
            out=Affine.of(own.o),
            norm3_weight=block.norm3.weight,
            norm3_bias=block.norm3.bias,
            cross_q=Affine.of(cross.q),
            cross_norm=cross.norm_q.weight,
            cross_attend=cross.attend,
            cross_out=Affine.of(cross.o),
            ffn_in=Affine.of(wide),
            ffn_out=Affine.of(narrow),
        )

    def run(
        self,
        x: Tensor,  # [S, D]
        time: LayerModulation,  # vectors [D]
        camera: tuple[Tensor, Tensor],  # [S, D] each
        rope: Tensor,  # complex [S, 1, 1, hd/2]
        text: tuple[Tensor, Tensor],
        cache: LayerCache,
    ) -> Tensor:
        """[S, D] -> [S, D]."""
        width = x.shape[1:]
        q, k, v = self.project(x, time, rope)
        keys, values = cache.extend(k, v)
        x = torch.addcmul(x, time.gate, self.out(self.attend(q, keys, values).view(x.shape)))
        x = torch.addcmul(camera[1], x, camera[0])
        q = self.cross_q(torch.layer_norm(x, width, self.norm3_weight, self.norm3_bias, self.eps))
        q = self.normalised(q).mul_(self.cross_norm).view(1, x.shape[0], self.heads, -1)
        x = self.cross_out(self.cross_attend(q, *text).view(x.shape)).add_(x)
        y = self.ffn_in(torch.layer_norm(x, width, time.ffn_scale, time.ffn_shift, self.eps))
        return torch.addcmul(x, time.ffn_gate, self.ffn_out(F.gelu(y, approximate="tanh")))

    def project(self, x: Tensor, time: LayerModulation, rope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated q and k, and v: [1, S, N, hd] each."""
        tokens, dim = x.shape
        qkv = self.qkv(torch.layer_norm(x, (dim,), time.scale, time.shift, self.eps))
        qk = self.normalised(qkv.narrow(1, 0, 2 * dim).view(tokens, 2, dim)).mul_(self.norm_qk)
        torch.view_as_complex(qk.view(tokens, 2, self.heads, -1, 2)).mul_(rope)
        q, k = qk.view(1, tokens, 2, self.heads, -1).unbind(2)
        return q, k, qkv.narrow(1, 2 * dim, dim).view(1, tokens, self.heads, -1)

    def normalised(self, x: Tensor) -> Tensor:
        """x / sqrt(mean(x^2) + eps) over the last axis, which is D wide."""
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * torch.addcmul(self.eps_tensor, norm, norm, value=self.share).rsqrt_()


class ServingTransformer(LaidOut):
    """Batch 1, fp32. Same methods as `WorldTransformer`, whose parameters must not change any more."""

    def __init__(self, module: WorldTransformer) -> None:
        super().__init__(module)
        config = self.config
        blocks = module.layers()
        self.layers = tuple(ServingLayer.of(block) for block in blocks)
        patch, out = module.patch_embedding, config.out_channels
        assert patch.bias is not None
        self._latent = (
            features_last(patch.weight[:, :out].flatten(1), out, config.patch_size).t().contiguous()
        )
        rest = features_last(patch.weight[:, out:].flatten(1), config.in_channels - out, config.patch_size)
        self._condition = Affine(rest.t().contiguous(), patch.bias)
        rays = module.patch_embedding_wancamctrl
        of_rays = features_last(rays.weight, config.camera_channels, config.patch_size)
        self._rays = Affine(of_rays.t().contiguous(), rays.bias)
        self._camera_in = Affine.of(module.c2ws_hidden_states_layer1)
        self._camera_out = Affine.of(module.c2ws_hidden_states_layer2)
        self._injectors = Injectors.of(blocks)
        self._head = Affine.of(module.head.head)
        self._rotary = RotaryGrid(config.attention_head_dim)

    def time(self, time: Tensor) -> Modulation:
        """Of one time for all tokens."""
        assert time.ndim == 0
        return super().time(time)

    def block(
        self, condition: Tensor, rays: Tensor, frames: Tensor, session: Tensor | None = None
    ) -> BlockInputs:
        """As the module's, laid out for `forward` and `write` of this class alone: no batch axis."""
        f, h, w = condition.shape[-3:]
        pt, ph, pw = patch = self.config.patch_size
        grid = (f // pt, h // ph, w // pw)
        return BlockInputs(
            condition=self._condition(patchify_last(condition, patch)),
            camera=self._injectors.inject(self._embed_camera(rays, session)),
            rope=self._rotary.table(frames, grid[1], grid[2])[:, None, None],
            grid=grid,
        )

    def _embed_camera(self, rays: Tensor, session: Tensor | None) -> Tensor:
        """[S, D]."""
        camera = self._rays(patchify_last(rays, self.config.patch_size))
        if "session" in self.config.camera_inputs:
            assert session is not None, "this configuration has a session camera input"
            camera = camera + self.module.patch_embedding_session(session[0].flatten(1).t())
        return self._camera_out(F.silu(self._camera_in(camera), inplace=True)).add_(camera)

    def forward(
        self,
        latent: Tensor,  # [1, out, F, h, w]
        time: Modulation,
        block: BlockInputs,
        text: TextKV,
        caches: Sequence[LayerCache],
    ) -> Tensor:
        """Noisy latent -> prediction of the same shape."""
        x = self._embed(latent, block)
        for layer, vectors, camera, kv, cache in zip(
            self.layers, time.layers, block.camera, text, caches, strict=True
        ):
            x = layer.run(x, vectors, camera, block.rope, kv, cache)
        x = F.layer_norm(x, x.shape[1:], time.head_scale, time.head_shift, self.config.eps)
        return unpatchify(self._head(x)[None], block.grid, self.config.patch_size)

    def write(
        self, latent: Tensor, time: Modulation, block: BlockInputs, text: TextKV, caches: Sequence[LayerCache]
    ) -> None:
        """The commit forward: what `forward` leaves in the caches, without the prediction that nobody
        needs.
        """
        x = self._embed(latent, block)
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers[:last]):
            x = layer.run(x, time.layers[i], block.camera[i], block.rope, text[i], caches[i])
        _, k, v = self.layers[last].project(x, time.layers[last], block.rope)
        caches[last].extend(k, v)

    def _embed(self, latent: Tensor, block: BlockInputs) -> Tensor:
        patches = patchify_last(latent, self.config.patch_size)
        return torch.addmm(block.condition, patches, self._latent)


def serving(module: WorldTransformer) -> ServingTransformer | WorldTransformer:
    """The form to serve with: on a GPU, and in half precision, the module itself."""
    module.requires_grad_(False).eval()
    laid_out = module.device.type == "cpu" and module.dtype is torch.float32
    return ServingTransformer(module) if laid_out else module
