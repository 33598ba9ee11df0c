"""torch's scaled_dot_product_attention: the platform default.

On CPU the mask stays as small as it is (broadcast by the kernel): expanding it first costs 14% at q 180 x
kv 1080 (torch 2.13). Grouped queries stay compressed; the CPU kernel reads them so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attention.backends.base import Kernel, PartialKernel
from attention.capabilities import MASK_KINDS, Capabilities, Needs
from attention.masks import Mask, build_mask

WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

P = ParamSpec("P")
R = TypeVar("R")


class SdpaBackend:
    """Whatever kernel torch picks; length 1 is kept away from cuDNN, which gets it wrong."""

    name = "sdpa"
    capabilities = Capabilities(
        dtypes=frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64}),
        devices=frozenset({"cpu", "cuda"}),
        grouped_queries=True,
        mask_kinds=MASK_KINDS,
        packed=True,
        partial=frozenset({"cpu"}),
    )

    def unavailable(self) -> str | None:
        """It always can."""
        return None

    def bind(self, needs: Needs) -> Kernel:
        """Choose the plain, the masked or the packed call, and fence off cuDNN where a length is 1."""
        if needs.packing is not None:
            return self._packed(needs)
        if needs.mask_kind:
            kernel = _masked(needs)
        elif needs.causal and needs.query_length != needs.kv_length:
            kernel = _unequal_causal(needs)
        else:
            kernel = _plain(needs)
        fenced = needs.device.type == "cuda" and 1 in (needs.query_length, needs.kv_length)
        return away_from_cudnn(kernel) if fenced else kernel

    def bind_partial(self, needs: Needs) -> PartialKernel:
        """The CPU kernel under `scaled_dot_product_attention`, which has the log-sum-exp at hand."""
        assert not needs.causal and needs.device.type == "cpu"
        kernel, scale = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, needs.scale
        wide = torch.float64 if needs.dtype is torch.float64 else torch.float32

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
            bias = None if mask is None else mask.bias(q.dtype)
            out, lse = kernel(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=bias, scale=scale
            )
            if mask is not None and mask.dead is not None:
                lse = lse.masked_fill(mask.dead.squeeze(-1), -torch.inf)
            return out.transpose(1, 2).to(wide), lse

        return attend

    def _packed(self, needs: Needs) -> Kernel:
        """One call per document, so that none sees another and nothing is padded."""
        assert needs.packing is not None
        parts: list[tuple[int, int, int, int, Kernel]] = []
        for (start, stop), seen in needs.packing.pairs:
            if seen is None:
                parts.append((start, stop, 0, 0, _zeros))
                continue
            first, last = seen
            document = replace(needs, packing=None, query_length=stop - start, kv_length=last - first)
            parts.append((start, stop, first, last, self.bind(document)))

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
            documents = [
                kernel(q[:, start:stop], k[:, first:last], v[:, first:last], None)
                for start, stop, first, last, kernel in parts
            ]
            return torch.cat(documents, dim=1)

        return attend


def _zeros(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
    return torch.zeros_like(q)


def _plain(needs: Needs) -> Kernel:
    grouped, scale, causal = needs.heads != needs.kv_heads, needs.scale, needs.causal

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        out = sdpa(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=causal,
            scale=scale,
            enable_gqa=grouped,
        )
        return out.transpose(1, 2).contiguous()

    return attend


def _masked(needs: Needs) -> Kernel:
    grouped, scale = needs.heads != needs.kv_heads, needs.scale

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        assert mask is not None
        out = sdpa(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=mask.bias(q.dtype),
            scale=scale,
            enable_gqa=grouped,
        )
        if mask.dead is not None:
            out = out.masked_fill(mask.dead, 0.0)
        return out.transpose(1, 2).contiguous()

    return attend


def _unequal_causal(needs: Needs) -> Kernel:
    """Torch aligns causal rows at the first key and we at the last one, so it is written as a mask."""
    built = build_mask(
        batch=needs.batch,
        query_length=needs.query_length,
        kv_length=needs.kv_length,
        causal=True,
        device=needs.device,
    )
    kernel = _masked(needs)
    return lambda q, k, v, mask: kernel(q, k, v, built)


def away_from_cudnn(kernel: Callable[P, R]) -> Callable[P, R]:
    """The same call, where torch may not pick cuDNN."""

    @wraps(kernel)
    def attend(*args: P.args, **kwargs: P.kwargs) -> R:
        with sdpa_kernel(WITHOUT_CUDNN):
            return kernel(*args, **kwargs)

    return attend
