"""One layer of the world transformer."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention.masks import Mask
from attention.selection import BackendPolicy
from engine.transformer.config import TransformerConfig
from engine.transformer.heads import CrossAttention, SelfAttention
from engine.transformer.modulation import LayerModulation, gated, modulated_norm


class LayerCache(Protocol):
    """Where one layer's K/V of the tokens at hand go, and what those tokens may look at."""

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated K and V [B, S, N, hd] of this forward -> all that its queries see, [B, S', N, hd]."""


class SelfOnly:
    """No history: the tokens of this forward see each other alone."""

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Nothing is added."""
        return keys, values


class Block(nn.Module):
    """Self-attention, camera injection, cross-attention, feed-forward."""

    def __init__(self, config: TransformerConfig, policy: BackendPolicy | None = None) -> None:
        super().__init__()
        dim, heads, eps = config.dim, config.num_attention_heads, config.eps
        self.eps = eps
        self.self_attn = SelfAttention(dim, heads, eps, policy)
        self.cross_attn = CrossAttention(dim, heads, eps, policy)
        self.norm3 = nn.LayerNorm(dim, eps)
        self.ffn = nn.Sequential(
            nn.Linear(dim, config.ffn_dim), nn.GELU("tanh"), nn.Linear(config.ffn_dim, dim)
        )
        self.modulation = nn.Parameter(torch.randn(1, 6, dim) / dim**0.5)
        self.cam_injector_layer1, self.cam_injector_layer2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.cam_scale_layer, self.cam_shift_layer = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def modulate(self, projected: Tensor) -> LayerModulation:
        """Projected time [..., 6, D] -> this layer's vectors [..., D], in fp32."""
        six = self.modulation[0].float() + projected.float()
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = six.unbind(-2)
        return LayerModulation(shift, 1 + scale, gate, ffn_shift, 1 + ffn_scale, ffn_gate)

    def inject(self, camera: Tensor) -> tuple[Tensor, Tensor]:
        """Camera embedding [B, S, D] -> the scale (1 added) and shift of this layer's tokens, [B, S, D]."""
        c = self.cam_injector_layer2(F.silu(self.cam_injector_layer1(camera))) + camera
        return 1 + self.cam_scale_layer(c), self.cam_shift_layer(c)

    def forward(
        self,
        x: Tensor,  # [B, S, D]
        time: LayerModulation,
        camera: tuple[Tensor, Tensor],
        rope: Tensor,
        text: tuple[Tensor, Tensor],
        cache: LayerCache,
        mask: Mask | None = None,
    ) -> Tensor:
        """[B, S, D] -> [B, S, D]."""
        q, k, v = self.self_attn.project(modulated_norm(x, time.shift, time.scale, self.eps), rope)
        keys, values = cache.extend(k, v)
        x = gated(x, time.gate, self.self_attn.out(self.self_attn.attend(q, keys, values, mask)))
        return self.after_self_attention(x, time, camera, text)

    def write(self, x: Tensor, time: LayerModulation, rope: Tensor, cache: LayerCache) -> None:
        """Only put this layer's K/V into the cache."""
        _, k, v = self.self_attn.project(modulated_norm(x, time.shift, time.scale, self.eps), rope)
        cache.extend(k, v)

    def after_self_attention(
        self,
        x: Tensor,
        time: LayerModulation,
        camera: tuple[Tensor, Tensor],
        text: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Camera injection, cross-attention and feed-forward."""
        x = torch.addcmul(camera[1], x, camera[0])
        x = x + self.cross_attn(self.norm3(x), *text)
        return gated(x, time.ffn_gate, self.ffn(modulated_norm(x, time.ffn_shift, time.ffn_scale, self.eps)))
