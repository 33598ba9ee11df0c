"""The oracle.

Attention as it is written in a paper, in fp32 (fp64 for fp64 inputs). Slow, readable, right.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attention.backends.base import Kernel, PartialKernel
from attention.capabilities import MASK_KINDS, Capabilities, Needs
from attention.masks import Mask


class MathBackend:
    """Explicit logits, masks and softmax."""

    name = "math"
    capabilities = Capabilities(
        dtypes=frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64}),
        devices=frozenset({"cpu", "cuda"}),
        grouped_queries=True,
        mask_kinds=MASK_KINDS,
        packed=True,
        partial=frozenset({"cpu", "cuda"}),
    )

    def unavailable(self) -> str | None:
        """It always can."""
        return None

    def bind(self, needs: Needs) -> Kernel:
        """The oracle with this geometry's scale, causality, documents and head groups."""

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
            out, _ = _attend(q, k, v, mask, needs)
            return out.to(q.dtype).contiguous()

        return attend

    def bind_partial(self, needs: Needs) -> PartialKernel:
        """The oracle's output before it is rounded, and its log-sum-exp."""

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
            return _attend(q, k, v, mask, needs)

        return attend


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, needs: Needs) -> tuple[Tensor, Tensor]:
    """-> [B, Sq, H, D] and log-sum-exp [B, H, Sq], in fp32 or fp64."""
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    groups = needs.heads // needs.kv_heads
    keys = k.to(wide).repeat_interleave(groups, dim=2)  # [B, Skv, Hq, D]
    values = v.to(wide).repeat_interleave(groups, dim=2)
    logits = torch.einsum("bqhd,bkhd->bhqk", q.to(wide), keys) * needs.scale
    if mask is not None and mask.pair is not None and mask.pair.dtype is not torch.bool:
        logits = logits + mask.pair.to(wide)
    logits = logits.masked_fill(_hidden(needs, mask), -torch.inf)
    top = logits.amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0.0)
    weights = torch.exp(logits - top)
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0, 1.0)  # a fully hidden row stays zero
    out = torch.einsum("bhqk,bkhd->bqhd", weights, values)
    if mask is not None and mask.q_valid is not None:
        out = out.masked_fill(~mask.q_valid[:, :, None, None], 0.0)
    return out, (top + torch.log(total)).squeeze(-1)


def _hidden(needs: Needs, mask: Mask | None) -> Tensor:
    """Which logits do not count: bool, broadcastable to [B, H, Sq, Skv]."""
    hidden = torch.zeros((1, 1, 1, 1), dtype=torch.bool, device=needs.device)
    packing = needs.packing or (mask.packing if mask is not None else None)
    if packing is not None:
        hidden = hidden | ~packing.isolation(needs.device)
    if needs.causal:
        rows = torch.arange(needs.query_length, device=needs.device)[:, None]
        columns = torch.arange(needs.kv_length, device=needs.device)[None]
        hidden = hidden | (columns > rows + needs.kv_length - needs.query_length)
    if mask is not None and mask.kv_valid is not None:
        hidden = hidden | ~mask.kv_valid[:, None, None, :]
    if mask is not None and mask.pair is not None and mask.pair.dtype is torch.bool:
        hidden = hidden | ~mask.pair
    return hidden
