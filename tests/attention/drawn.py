"""Attention requests drawn by hypothesis."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from attention.declaration import Computation, Declaration
from attention.masks import Mask, build_mask


@dataclass(frozen=True)
class Request:
    declaration: Declaration
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None


@st.composite
def requests(draw, max_length: int = 9, dtype: torch.dtype = torch.float32) -> Request:
    """Geometry, masks and contents; small lengths are likely, 1 among them."""
    kv_heads, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    head_dim = draw(st.sampled_from([1, 2, 8, 20, 32, 64]))
    batch = draw(st.integers(1, 3))
    causal = draw(st.booleans())
    computation = Computation.SELF if causal or draw(st.booleans()) else Computation.CROSS
    scale = draw(st.sampled_from([None, 0.3]))
    queries = draw(st.integers(1, max_length))
    keys = draw(st.integers(1, max_length))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    heads = kv_heads * groups
    declaration = Declaration(computation, "drawn", heads, kv_heads, head_dim, causal=causal, scale=scale)
    q = torch.randn((batch, queries, heads, head_dim), generator=generator, dtype=dtype) * 2
    k = torch.randn((batch, keys, kv_heads, head_dim), generator=generator, dtype=dtype) * 2
    v = torch.randn((batch, keys, kv_heads, head_dim), generator=generator, dtype=dtype)
    mask = draw(masks(batch, heads, queries, keys, causal, generator, dtype))
    return Request(declaration, q, k, v, mask)


@st.composite
def masks(draw, batch, heads, queries, keys, causal, generator, dtype) -> Mask | None:
    """Any combination of parts; fully hidden rows are common."""
    parts = draw(st.sets(st.sampled_from(["q_valid", "kv_valid", "pair"])))
    if not parts:
        return None
    share = draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))  # of what is allowed

    def allowed(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) < share

    pair = None
    if "pair" in parts:
        shape = [draw(st.sampled_from([1, n])) for n in (batch, heads, queries, keys)]
        pair = allowed(*shape)
        if draw(st.booleans()):
            pair = torch.randn(shape, generator=generator, dtype=dtype).masked_fill(~pair, -torch.inf)
    return build_mask(
        batch=batch,
        heads=heads,
        query_length=queries,
        kv_length=keys,
        q_valid=allowed(batch, queries) if "q_valid" in parts else None,
        kv_valid=allowed(batch, keys) if "kv_valid" in parts else None,
        pair=pair,
        causal=causal,
    )


def hidden_rows(request: Request) -> Tensor:
    """Rows that may see nothing, [B, Sq, H] bool, worked out entry by entry."""
    b, s, h, _ = request.q.shape
    length, mask = request.k.shape[1], request.mask
    hidden = torch.zeros((b, h, s, length), dtype=torch.bool)
    if request.declaration.causal:
        for row in range(s):
            hidden[:, :, row, max(0, row + length - s + 1) :] = True
    if mask is not None and mask.kv_valid is not None:
        hidden |= ~mask.kv_valid[:, None, None, :]
    if mask is not None and mask.pair is not None:
        shown = mask.pair if mask.pair.dtype is torch.bool else mask.pair != -torch.inf
        hidden |= ~shown
    if mask is not None and mask.q_valid is not None:
        hidden |= ~mask.q_valid[:, None, :, None]
    return hidden.all(-1).transpose(1, 2)
