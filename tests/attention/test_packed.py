"""Packed documents: each alone gives the same, whatever backend runs the whole."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.declaration import Computation, Declaration
from attention.layer import Attention
from attention.masks import build_mask
from attention.packing import Packing, pack_cross, pack_self
from attention.selection import BackendPolicy

torch.set_num_threads(1)


@dataclass(frozen=True)
class Packed:
    declaration: Declaration
    packing: Packing
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def boundaries(lengths: list[int]) -> list[int]:
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


@st.composite
def packed(draw) -> Packed:
    lengths = st.lists(st.integers(1, 5), min_size=1, max_size=4)
    own, kv_heads, groups = draw(lengths), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    if draw(st.booleans()):
        computation, other, packing = Computation.SELF, own, pack_self(torch.tensor(boundaries(own)))
    else:
        other = draw(lengths)
        choice = st.one_of(st.none(), st.integers(0, len(other) - 1))
        seen = draw(st.lists(choice, min_size=len(own), max_size=len(own)))
        computation, packing = Computation.CROSS, pack_cross(boundaries(own), boundaries(other), seen)
    causal = computation is Computation.SELF and draw(st.booleans())
    heads = kv_heads * groups
    declaration = Declaration(computation, "packed", heads, kv_heads, 8, causal=causal)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    q = torch.randn(1, sum(own), heads, 8, generator=generator)
    k, v = (torch.randn(1, sum(other), kv_heads, 8, generator=generator) for _ in "kv")
    return Packed(declaration, packing, q, k, v)


def run(request: Packed, backend: str) -> torch.Tensor:
    attend = Attention(request.declaration, BackendPolicy(default=backend))
    return attend(request.q, request.k, request.v, layout=request.packing)


@settings(max_examples=80, deadline=None)
@given(request=packed())
def test_the_backends_agree_on_packed_documents(request: Packed) -> None:
    out, oracle = run(request, "sdpa"), run(request, "math")
    assert not out.isnan().any()
    torch.testing.assert_close(out, oracle, atol=1e-5, rtol=0)


@pytest.mark.parametrize("backend", ["sdpa", "math"])
@settings(max_examples=40, deadline=None)
@given(request=packed())
def test_a_document_is_what_it_would_be_alone(backend: str, request: Packed) -> None:
    out = run(request, backend)
    alone = Attention(request.declaration, BackendPolicy(default=backend))
    for (start, stop), seen in request.packing.pairs:
        if seen is None:
            assert (out[:, start:stop] == 0).all()
            continue
        k, v = request.k[:, slice(*seen)], request.v[:, slice(*seen)]
        torch.testing.assert_close(
            out[:, start:stop], alone(request.q[:, start:stop], k, v), atol=1e-6, rtol=0
        )


@settings(max_examples=40, deadline=None)
@given(request=packed())
def test_a_packing_inside_a_mask_isolates_alike(request: Packed) -> None:
    mask = build_mask(
        batch=1,
        query_length=request.packing.query_length,
        kv_length=request.packing.kv_length,
        causal=request.declaration.causal,
        packing=request.packing,
    )
    for backend in ("sdpa", "math"):
        attend = Attention(request.declaration, BackendPolicy(default=backend))
        out = attend(request.q, request.k, request.v, mask)
        torch.testing.assert_close(out, run(request, "math"), atol=1e-5, rtol=0)


def test_nothing_of_another_document_leaks_even_where_it_is_not_finite() -> None:
    q = torch.randn(1, 6, 2, 8)
    poisoned = q.clone()
    poisoned[:, 3:] = torch.nan
    attend = Attention(Declaration(Computation.SELF, "packed", 2, 2, 8))
    out = attend(poisoned, poisoned, poisoned, layout=pack_self([0, 3, 6]))
    assert torch.equal(out[:, :3], attend(q, q, q, layout=pack_self([0, 3, 6]))[:, :3])
