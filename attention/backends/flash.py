"""flash-attn, where it is installed and a CUDA device is present."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from attention.backends.base import Kernel, PartialKernel
from attention.capabilities import Capabilities, Needs
from attention.masks import Mask


class FlashBackend:
    """flash-attn 2: no masks but causal and documents, half precision, head dims up to 256."""

    name = "flash"
    capabilities = Capabilities(
        dtypes=frozenset({torch.float16, torch.bfloat16}),
        devices=frozenset({"cuda"}),
        grouped_queries=True,
        mask_kinds=frozenset({"q_valid"}),
        max_head_dim=256,
        head_dim_multiple=8,
        packed=True,
        partial=frozenset({"cuda"}),
    )

    def unavailable(self) -> str | None:
        """Without the flash_attn library or a CUDA device it can't run."""
        if find_spec("flash_attn") is None:
            return "the flash_attn library is not installed"
        if not torch.cuda.is_available():
            return "there is no CUDA device"
        return None

    def library(self) -> Any:
        """The flash_attn module."""
        return import_module("flash_attn")

    def bind(self, needs: Needs) -> Kernel:
        """Bind scale and causality; output rows of invalid queries are zeroed afterwards.

        It aligns causal rows at the last key (since 2.1), as we do.
        """
        if needs.packing is not None:
            return _packed(needs, self.library().flash_attn_varlen_func)
        function = self.library().flash_attn_func
        scale, causal = needs.scale, needs.causal

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
            out: Tensor = function(q, k, v, softmax_scale=scale, causal=causal)
            if mask is not None and mask.dead is not None:
                out = out.masked_fill(mask.dead.transpose(1, 2), 0.0)
            return out

        return attend

    def bind_partial(self, needs: Needs) -> PartialKernel:
        """`flash_attn_func` with its log-sum-exp, which is fp32 [B, H, Sq]."""
        assert not needs.causal
        function, scale = self.library().flash_attn_func, needs.scale

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
            out, lse, _ = function(q, k, v, softmax_scale=scale, return_attn_probs=True)
            if mask is not None and mask.dead is not None:
                lse = lse.masked_fill(mask.dead.squeeze(-1), -torch.inf)
            return out.float(), lse

        return attend


def _packed(needs: Needs, function: Callable[..., Tensor]) -> Kernel:
    """`flash_attn_varlen_func`; K/V documents are laid out in the order in which the queries see them."""
    assert needs.packing is not None
    queries = [span for span, _ in needs.packing.pairs]
    keys = [seen or (0, 0) for _, seen in needs.packing.pairs]
    q_lengths, kv_lengths = [b - a for a, b in queries], [b - a for a, b in keys]
    starts_q, starts_kv = _cumulative(q_lengths, needs.device), _cumulative(kv_lengths, needs.device)
    order = torch.tensor([i for a, b in keys for i in range(a, b)], dtype=torch.int64, device=needs.device)
    in_order = order.tolist() == list(range(needs.kv_length))
    blind = torch.zeros(needs.query_length, dtype=torch.bool, device=needs.device)
    for (start, stop), seen in needs.packing.pairs:
        blind[start:stop] = seen is None
    has_blind = bool(blind.any())

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        k, v = (k[0], v[0]) if in_order else (k[0].index_select(0, order), v[0].index_select(0, order))
        out = function(
            q[0],
            k,
            v,
            starts_q,
            starts_kv,
            max(q_lengths),
            max(1, *kv_lengths),
            softmax_scale=needs.scale,
            causal=needs.causal,
        )
        return (out.masked_fill(blind[:, None, None], 0.0) if has_blind else out)[None]

    return attend


def _cumulative(lengths: list[int], device: torch.device) -> Tensor:
    return torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32)
