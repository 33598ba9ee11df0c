"""Every backend against the oracle, and the oracle against a plain loop."""

import math

import pytest
import torch
from drawn import Request, hidden_rows, requests
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.backends import BACKENDS
from attention.layer import Attention
from attention.selection import BackendPolicy

torch.set_num_threads(1)

HERE = [name for name, backend in BACKENDS.items() if name != "math" and backend.unavailable() is None]
HERE = [name for name in HERE if "cpu" in BACKENDS[name].capabilities.devices]


def run(request: Request, backend: str) -> torch.Tensor:
    attend = Attention(request.declaration, BackendPolicy(default=backend))
    return attend(request.q, request.k, request.v, request.mask)


@pytest.mark.parametrize("backend", HERE)
@settings(max_examples=120, deadline=None)
@given(request=requests())
def test_a_backend_agrees_with_the_oracle(backend: str, request: Request) -> None:
    out, oracle = run(request, backend), run(request, "math")
    assert out.shape == request.q.shape and out.dtype is request.q.dtype
    assert out.is_contiguous() and oracle.is_contiguous()
    assert not out.isnan().any()
    torch.testing.assert_close(out, oracle, atol=1e-5, rtol=0)


@pytest.mark.parametrize("backend", [*HERE, "math"])
@settings(max_examples=40, deadline=None)
@given(request=requests())
def test_a_row_that_sees_nothing_is_zero_and_others_are_not(backend: str, request: Request) -> None:
    zero = (run(request, backend) == 0).all(-1)
    assert torch.equal(zero, hidden_rows(request))


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize(("dtype", "within"), [(torch.bfloat16, 0.03), (torch.float16, 0.005)])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_backend_agrees_in_half_precision(backend, dtype, within, data) -> None:
    request = data.draw(requests(dtype=dtype))
    out, oracle = run(request, backend), run(request, "math")
    assert not out.isnan().any()
    torch.testing.assert_close(out.float(), oracle.float(), atol=within, rtol=within)


@settings(max_examples=40, deadline=None)
@given(request=requests(max_length=5, dtype=torch.float64))
def test_the_oracle_is_what_is_written_in_the_paper(request: Request) -> None:
    out = run(request, "math")
    torch.testing.assert_close(out, by_hand(request), atol=1e-12, rtol=0)


def by_hand(request: Request) -> torch.Tensor:
    """Entry by entry, in Python floats."""
    b, s, h, _ = request.q.shape
    groups = request.declaration.heads // request.declaration.kv_heads
    length, mask = request.k.shape[1], request.mask
    out = torch.zeros_like(request.q)
    for i in range(b):
        for row in range(s):
            for head in range(h):
                if mask is not None and mask.q_valid is not None and not mask.q_valid[i, row]:
                    continue
                weights = []
                for key in range(length):
                    logit = float(request.q[i, row, head] @ request.k[i, key, head // groups])
                    logit *= request.declaration.logit_scale
                    weights.append(math.exp(logit + bias(request, i, head, row, key)))
                if total := sum(weights):
                    values = request.v[i, :, head // groups]
                    out[i, row, head] = torch.tensor(weights, dtype=values.dtype) @ values / total
    return out


def bias(request: Request, i: int, head: int, row: int, key: int) -> float:
    """What is added to one logit."""
    mask, s, length = request.mask, request.q.shape[1], request.k.shape[1]
    if request.declaration.causal and key > row + length - s:
        return -math.inf
    if mask is None:
        return 0.0
    if mask.kv_valid is not None and not mask.kv_valid[i, key]:
        return -math.inf
    if mask.pair is None:
        return 0.0
    entry = mask.pair.expand(request.q.shape[0], request.declaration.heads, s, length)[i, head, row, key]
    if mask.pair.dtype is torch.bool:
        return 0.0 if entry else -math.inf
    return float(entry)
