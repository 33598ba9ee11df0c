"""The causal world transformer, under the checkpoint's parameter names.

What can be computed once is a method of its own: times once per model (`time`), text once per prompt
(`text`), the rest of a block's inputs once per block (`block`). `forward` is what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention.masks import Mask
from attention.selection import BackendPolicy
from engine.transformer.block import Block, LayerCache, SelfOnly
from engine.transformer.config import TransformerConfig
from engine.transformer.modulation import Modulation, modulated_norm, sinusoid
from engine.transformer.patches import patchify, unpatchify
from engine.transformer.rope import rotary_table

TextKV = tuple[tuple[Tensor, Tensor], ...]
"""Per layer: K and V [B, L, N, hd] of a prompt."""


@dataclass(frozen=True, slots=True)
class BlockInputs:
    """What the forwards of one block share."""

    condition: Tensor  # [B, S, D]: the embedded mask and image latent, with the patch embedding's bias
    camera: tuple[tuple[Tensor, Tensor], ...]  # per layer: scale (1 added) and shift, [B, S, D]
    rope: Tensor  # complex [S, 1, hd/2] or [B, S, 1, hd/2]
    grid: tuple[int, int, int]  # patches in time, height, width


class Head(nn.Module):
    """Modulated norm and the projection to patches."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.head = nn.Linear(dim, out)
        self.modulation = nn.Parameter(torch.randn(1, 2, dim) / dim**0.5)


class WorldTransformer(nn.Module):
    """Predicts a block's flow (or clean latent) from noisy latent, condition and the K/V of what came."""

    def __init__(self, config: TransformerConfig, policy: BackendPolicy | None = None) -> None:
        super().__init__()
        self.config = config
        dim, volume = config.dim, config.patch_volume
        self.patch_embedding = nn.Conv3d(config.in_channels, dim, config.patch_size, stride=config.patch_size)
        self.patch_embedding_wancamctrl = nn.Linear(config.camera_channels * volume, dim)
        if "session" in config.camera_inputs:
            self.patch_embedding_session = nn.Linear(config.session_channels, dim)
        self.c2ws_hidden_states_layer1 = nn.Linear(dim, dim)
        self.c2ws_hidden_states_layer2 = nn.Linear(dim, dim)
        self.text_embedding = nn.Sequential(
            nn.Linear(config.text_dim, dim), nn.GELU("tanh"), nn.Linear(dim, dim)
        )
        self.time_embedding = nn.Sequential(nn.Linear(config.freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.blocks = nn.ModuleList(Block(config, policy) for _ in range(config.num_layers))
        self.head = Head(dim, config.out_channels * volume)

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return self.patch_embedding.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.patch_embedding.weight.device

    # ---------------------------------------------------------------------- once per model

    def time(self, times: Tensor, tokens_per_frame: int = 1) -> Modulation:
        """Modulations of `times`, which lie in 0..1000.

        [] -> vectors [D], the same for all tokens. [B, F], one time per latent frame -> [B, F *
        tokens_per_frame, D].
        """
        e = self.time_embedding(sinusoid(times, self.config.freq_dim).to(self.patch_embedding.weight))
        six = self.time_projection(e).unflatten(-1, (6, -1))
        if times.ndim:
            e = e.repeat_interleave(tokens_per_frame, dim=1)
            six = six.repeat_interleave(tokens_per_frame, dim=1)
        head = self.head.modulation[0].float() + e.float().unsqueeze(-2)
        layers = tuple(block.modulate(six) for block in self.layers())
        return Modulation(layers, head[..., 0, :], 1 + head[..., 1, :])

    # ---------------------------------------------------------------------- once per prompt

    def text(self, text: Tensor) -> TextKV:
        """Text encoder output [B, L, text_dim], as it is -> each layer's cross K/V."""
        embedded = self.text_embedding(text)
        return tuple(block.cross_attn.project_text(embedded) for block in self.layers())

    # ---------------------------------------------------------------------- once per block

    def block(
        self,
        condition: Tensor,  # [B, in - out, F, h, w]: mask 4, image latent
        rays: Tensor,  # [B, 384, F, h, w]
        frames: Tensor,  # [F] or [B, F] absolute latent frame indices
        session: Tensor | None = None,  # [B, Cs, F, h/ph, w/pw] session features per patch
    ) -> BlockInputs:
        """Everything about a block but its noise."""
        f, h, w = condition.shape[-3:]
        pt, ph, pw = self.config.patch_size
        grid = (f // pt, h // ph, w // pw)
        rope = rotary_table(frames, grid[1], grid[2], self.config.attention_head_dim, condition.device)
        camera = self.embed_camera(rays, session)
        return BlockInputs(
            condition=self.embed_condition(condition),
            camera=tuple(block.inject(camera) for block in self.layers()),
            rope=rope.unsqueeze(-2),
            grid=grid,
        )

    def embed_condition(self, condition: Tensor) -> Tensor:
        """The patch embedding's share of mask and image latent, with its bias: [B, S, D]."""
        weight = self.patch_embedding.weight[:, self.config.out_channels :].flatten(1)
        return F.linear(patchify(condition, self.config.patch_size), weight, self.patch_embedding.bias)

    def embed_camera(self, rays: Tensor, session: Tensor | None = None) -> Tensor:
        """Camera embedding [B, S, D] that every layer's injector takes."""
        camera: Tensor = self.patch_embedding_wancamctrl(patchify(rays, self.config.patch_size))
        if "session" in self.config.camera_inputs:
            assert session is not None, "this configuration has a session camera input"
            camera = camera + self.patch_embedding_session(session.flatten(2).transpose(1, 2))
        residual: Tensor = self.c2ws_hidden_states_layer2(F.silu(self.c2ws_hidden_states_layer1(camera)))
        return camera + residual

    # ---------------------------------------------------------------------- once per forward

    def forward(
        self,
        latent: Tensor,  # [B, out, F, h, w]
        time: Modulation,
        block: BlockInputs,
        text: TextKV,
        caches: Sequence[LayerCache] | None = None,
        mask: Mask | None = None,
    ) -> Tensor:
        """Noisy latent -> prediction of the same shape.

        `caches` has one entry per layer; None sees no history.
        """
        x = self.embed_latent(latent, block.condition)
        for i, layer in enumerate(self.blocks):
            cache = SelfOnly() if caches is None else caches[i]
            x = layer(x, time.layers[i], block.camera[i], block.rope, text[i], cache, mask)
        return self.predict(x, time, block.grid)

    def write(
        self,
        latent: Tensor,  # [B, out, F, h, w], clean
        time: Modulation,
        block: BlockInputs,
        text: TextKV,
        caches: Sequence[LayerCache],
    ) -> None:
        """The commit forward: what `forward` leaves in the caches, without the prediction that nobody
        needs.
        """
        x = self.embed_latent(latent, block.condition)
        layers = self.layers()
        for i, layer in enumerate(layers[:-1]):
            x = layer(x, time.layers[i], block.camera[i], block.rope, text[i], caches[i])
        layers[-1].write(x, time.layers[-1], block.rope, caches[-1])

    def embed_latent(self, latent: Tensor, condition: Tensor) -> Tensor:
        """Tokens [B, S, D] of a noisy latent and an embedded condition."""
        weight = self.patch_embedding.weight[:, : self.config.out_channels].flatten(1)
        return condition + F.linear(patchify(latent, self.config.patch_size), weight)

    def predict(self, x: Tensor, time: Modulation, grid: tuple[int, int, int]) -> Tensor:
        """Tokens [B, S, D] -> [B, out, F, h, w]."""
        x = modulated_norm(x, time.head_shift, time.head_scale, self.config.eps)
        return unpatchify(self.head.head(x), grid, self.config.patch_size)

    def layers(self) -> list[Block]:
        """`blocks`, as what they are."""
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        assert len(blocks) == len(self.blocks)
        return blocks
