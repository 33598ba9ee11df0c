"""torch's scaled_dot_product_attention: the platform default."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attention.backends.base import Kernel
from attention.capabilities import Capabilities, Needs
from attention.masks import Mask

WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class SdpaBackend:
    """Whatever kernel torch picks; length 1 is kept away from cuDNN, which gets it wrong."""

    name = "sdpa"
    capabilities = Capabilities(
        dtypes=frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64}),
        devices=frozenset({"cpu", "cuda"}),
        grouped_queries=True,
        mask_kinds=frozenset({"q_valid", "kv_valid", "pair_bool", "pair_additive", "causal"}),
    )

    def unavailable(self) -> str | None:
        """It always can."""
        return None

    def bind(self, needs: Needs) -> Kernel:
        """Choose the plain or the masked call, and fence off cuDNN where a length is 1."""
        plain = not needs.mask_kind and not needs.zero_rows
        kernel = _plain(needs) if plain else _masked(needs)
        if needs.device.type == "cuda" and 1 in (needs.query_length, needs.kv_length):
            return _away_from_cudnn(kernel)
        return kernel


def _plain(needs: Needs) -> Kernel:
    grouped, scale, causal = needs.heads != needs.kv_heads, needs.scale, needs.causal
    if needs.query_length != needs.kv_length:
        assert not causal, "the layer turns unequal causal requests into masked ones"

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        out = sdpa(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=causal,
            scale=scale,
            enable_gqa=grouped,
        )
        return out.transpose(1, 2)

    return attend


def _masked(needs: Needs) -> Kernel:
    grouped, scale = needs.heads != needs.kv_heads, needs.scale
    full = (needs.batch, needs.heads, needs.query_length, needs.kv_length)

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        assert mask is not None
        allowed = mask.allowed
        if allowed is not None:
            allowed = (allowed if allowed.dtype is torch.bool else allowed.to(q.dtype)).expand(full)
        out = sdpa(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=allowed,
            scale=scale,
            enable_gqa=grouped,
        )
        if mask.dead is not None:
            out = out.masked_fill(mask.dead, 0.0)
        return out.transpose(1, 2)

    return attend


def _away_from_cudnn(kernel: Kernel) -> Kernel:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        with sdpa_kernel(WITHOUT_CUDNN):
            return kernel(q, k, v, mask)

    return attend
