"""How the flash backend calls its library, with the library's documented functions written out in torch.

That the real one agrees is for `test_attention_on_gpu.py`, where there is a GPU.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from attention.backends.flash import FlashBackend
from attention.backends.math import MathBackend
from attention.capabilities import Needs
from attention.masks import build_mask
from attention.packing import Packing, pack_cross, pack_self

torch.set_num_threads(1)


class WrittenOut:
    """`flash_attn_func` and `flash_attn_varlen_func` of flash-attn 2, as its README describes them."""

    def flash_attn_func(self, q, k, v, softmax_scale, causal=False, return_attn_probs=False):
        k, v = (tensor.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for tensor in (k, v))
        logits = torch.einsum("bqhd,bkhd->bhqk", q, k) * softmax_scale
        if causal:
            seen = torch.ones(logits.shape[-2:], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
            logits = logits.masked_fill(~seen, -torch.inf)
        out = torch.einsum("bhqk,bkhd->bqhd", logits.softmax(-1).nan_to_num(0.0), v)
        return (out, logits.logsumexp(-1), None) if return_attn_probs else out

    def flash_attn_varlen_func(self, q, k, v, cu_q, cu_k, max_q, max_k, softmax_scale, causal=False):
        assert cu_q.dtype is cu_k.dtype is torch.int32 and len(cu_q) == len(cu_k)
        assert max_q == int(cu_q.diff().max()) and max_k >= int(cu_k.diff().max())
        out = torch.full_like(q, torch.nan)  # where a document has no keys, nothing is promised
        for a, b, c, d in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:], strict=True):
            if c < d:
                out[a:b] = self.flash_attn_func(
                    q[None, a:b], k[None, c:d], v[None, c:d], softmax_scale, causal
                )[0]
        return out


class Flash(FlashBackend):
    def library(self):
        return WrittenOut()


def needs(queries: int, keys: int, **more) -> Needs:
    sizes = Needs(1, queries, keys, 4, 2, 8, torch.float32, torch.device("cpu"), 0.3)
    return replace(sizes, **more)


def tensors(queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(queries * keys)
    shapes = [(1, queries, 4, 8), (1, keys, 2, 8), (1, keys, 2, 8)]
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v


def agree(needs: Needs, mask=None) -> None:
    given = tensors(needs.query_length, needs.kv_length)
    out, oracle = (backend.bind(needs)(*given, mask) for backend in (Flash(), MathBackend()))
    torch.testing.assert_close(out, oracle, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (1, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_scale_and_causality_reach_it(queries: int, keys: int, causal: bool) -> None:
    agree(needs(queries, keys, causal=causal))


def test_rows_of_invalid_queries_are_zeroed_after_it() -> None:
    mask = build_mask(
        batch=1, query_length=4, kv_length=6, q_valid=torch.tensor([[True, False, True, False]])
    )
    agree(needs(4, 6, mask_kind=mask.kind), mask)


@pytest.mark.parametrize(
    "packing",
    [
        pack_self([0, 3, 4, 9]),
        pack_cross([0, 3, 9], [0, 2, 6], [0, 1]),
        pack_cross([0, 3, 4, 9], [0, 2, 6], [1, 0, 1]),
        pack_cross([0, 3, 9], [0, 2, 6], [None, 0]),
        pack_cross([0, 3, 9], [0, 2, 6], [None, None]),
    ],
)
def test_documents_reach_it_in_the_order_of_the_queries(packing: Packing) -> None:
    agree(needs(packing.query_length, packing.kv_length, packing=packing))


def test_packed_documents_are_causal_each_in_itself() -> None:
    agree(needs(9, 9, packing=pack_self([0, 3, 4, 9]), causal=True))


def test_its_log_sum_exp_is_that_of_the_oracle() -> None:
    wanted = needs(4, 6, partial=True)
    parts = [backend.bind_partial(wanted)(*tensors(4, 6), None) for backend in (Flash(), MathBackend())]
    torch.testing.assert_close(parts[0], parts[1], atol=1e-5, rtol=0)
