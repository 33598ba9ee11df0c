"""The transformer with the parts between its attentions compiled by torch (inductor).

Attention, and what it reads and writes, stay as they are: they are kernels already, and the caches are not a
compiler's business. Compiled once per geometry for all layers; fused arithmetic rounds in its own way, so the
bytes are not those of the eager form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.transformer.block import Block, LayerCache
from engine.transformer.heads import width_norm
from engine.transformer.laid_out import LaidOut
from engine.transformer.model import BlockInputs, TextKV, WorldTransformer
from engine.transformer.modulation import LayerModulation, Modulation, gated, modulated_norm
from engine.transformer.rope import rotate


class CompiledTransformer(LaidOut):
    """Batch 1, any dtype. Same methods as `WorldTransformer`, whose parameters must not change any more."""

    def __init__(self, module: WorldTransformer) -> None:
        super().__init__(module)
        self._blocks = module.layers()
        self._layers = [_weights(block) for block in self._blocks]
        self._project: Any = torch.compile(_project, dynamic=False)
        self._ask_text: Any = torch.compile(_ask_text, dynamic=False)
        self._finish: Any = torch.compile(_finish, dynamic=False)

    def block(
        self, condition: Tensor, rays: Tensor, frames: Tensor, session: Tensor | None = None
    ) -> BlockInputs:
        """As the module's."""
        return self.module.block(condition, rays, frames, session)

    def forward(
        self,
        latent: Tensor,  # [1, out, F, h, w]
        time: Modulation,
        block: BlockInputs,
        text: TextKV,
        caches: Sequence[LayerCache],
    ) -> Tensor:
        """Noisy latent -> prediction of the same shape."""
        x = self.module.embed_latent(latent, block.condition)
        for i in range(len(self._blocks)):
            x = self._layer(i, x, time.layers[i], block, text[i], caches[i])
        return self.module.predict(x, time, block.grid)

    def write(
        self, latent: Tensor, time: Modulation, block: BlockInputs, text: TextKV, caches: Sequence[LayerCache]
    ) -> None:
        """The commit forward: what `forward` leaves in the caches, without the prediction that nobody
        needs.
        """
        x = self.module.embed_latent(latent, block.condition)
        last = len(self._blocks) - 1
        for i in range(last):
            x = self._layer(i, x, time.layers[i], block, text[i], caches[i])
        _, k, v = self._rotated(last, x, time.layers[last], block.rope)
        caches[last].extend(k, v)

    def _layer(
        self,
        i: int,
        x: Tensor,
        time: LayerModulation,
        inputs: BlockInputs,
        text: tuple[Tensor, Tensor],
        cache: LayerCache,
    ) -> Tensor:
        block, weights = self._blocks[i], self._layers[i]
        q, k, v = self._rotated(i, x, time, inputs.rope)
        seen = block.self_attn.attend(q, *cache.extend(k, v))
        x, q = self._ask_text(weights, x, seen, time.gate, *inputs.camera[i])
        told = block.cross_attn.attend(q, *text)
        out: Tensor = self._finish(weights, x, told, time.ffn_shift, time.ffn_scale, time.ffn_gate)
        return out

    def _rotated(
        self, i: int, x: Tensor, time: LayerModulation, rope: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """[1, S, N, hd] each. The rotation is complex arithmetic, which inductor leaves to eager kernels."""
        q, k, v = self._project(self._layers[i], x, time.shift, time.scale)
        return rotate(q, rope), rotate(k, rope), v


class _Weights(NamedTuple):
    """One layer's, without its module: arguments of one compiled graph for all layers."""

    qkv: tuple[Tensor, Tensor]
    norm_q: Tensor
    norm_k: Tensor
    out: tuple[Tensor, Tensor]
    norm3: tuple[Tensor, Tensor]
    cross_q: tuple[Tensor, Tensor]
    cross_norm: Tensor
    cross_out: tuple[Tensor, Tensor]
    ffn_in: tuple[Tensor, Tensor]
    ffn_out: tuple[Tensor, Tensor]
    heads: int
    eps: float


def _weights(block: Block) -> _Weights:
    own, cross = block.self_attn, block.cross_attn
    wide, narrow = block.ffn[0], block.ffn[2]
    assert isinstance(wide, nn.Linear)
    assert isinstance(narrow, nn.Linear)
    return _Weights(
        qkv=(
            torch.cat([own.q.weight, own.k.weight, own.v.weight]),
            torch.cat([own.q.bias, own.k.bias, own.v.bias]),
        ),
        norm_q=own.norm_q.weight,
        norm_k=own.norm_k.weight,
        out=(own.o.weight, own.o.bias),
        norm3=(block.norm3.weight, block.norm3.bias),
        cross_q=(cross.q.weight, cross.q.bias),
        cross_norm=cross.norm_q.weight,
        cross_out=(cross.o.weight, cross.o.bias),
        ffn_in=(wide.weight, wide.bias),
        ffn_out=(narrow.weight, narrow.bias),
        heads=own.heads,
        eps=block.eps,
    )


def _project(w: _Weights, x: Tensor, shift: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q and k before their rotation, and v: [1, S, N, hd] each."""
    qkv = F.linear(modulated_norm(x, shift, scale, w.eps), *w.qkv)
    q, k, v = qkv.chunk(3, dim=-1)
    q, k = width_norm(q, w.norm_q, w.eps), width_norm(k, w.norm_k, w.eps)
    heads = (*x.shape[:-1], w.heads, -1)
    return q.view(heads), k.view(heads), v.view(heads)


def _ask_text(
    w: _Weights, x: Tensor, seen: Tensor, gate: Tensor, scale: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """After self-attention: the tokens with their camera, and what they ask the text."""
    x = torch.addcmul(shift, gated(x, gate, F.linear(seen.flatten(-2), *w.out)), scale)
    q = F.linear(F.layer_norm(x, x.shape[-1:], *w.norm3, w.eps), *w.cross_q)
    return x, width_norm(q, w.cross_norm, w.eps).view(*x.shape[:-1], w.heads, -1)


def _finish(w: _Weights, x: Tensor, told: Tensor, shift: Tensor, scale: Tensor, gate: Tensor) -> Tensor:
    """After cross-attention: its projection and the feed-forward."""
    x = x + F.linear(told.flatten(-2), *w.cross_out)
    y = F.linear(modulated_norm(x, shift, scale, w.eps), *w.ffn_in)
    return gated(x, gate, F.linear(F.gelu(y, approximate="tanh"), *w.ffn_out))
