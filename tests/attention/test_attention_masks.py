import pytest
import torch

from attention.declaration import Computation, Declaration
from attention.layer import Attention
from attention.masks import build_mask
from attention.packing import pack_self
from attention.selection import BackendPolicy

torch.set_num_threads(1)


class Watched(torch.utils._python_dispatch.TorchDispatchMode):
    """Records what would make the host wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._local_scalar_dense.default:
            self.waits.append(str(function))
        return function(*args, **(kwargs or {}))


def layer(backend: str = "sdpa", **changes) -> Attention:
    fields = {"computation": Computation.SELF, "role": "a", "heads": 2, "kv_heads": 2, "head_dim": 4}
    return Attention(Declaration(**{**fields, **changes}), BackendPolicy(default=backend))


@pytest.mark.parametrize("backend", ["sdpa", "math"])
def test_a_mask_is_looked_into_when_it_is_built_and_never_by_a_call(backend: str) -> None:
    q = torch.randn(1, 3, 2, 4)
    with Watched() as built:
        mask = build_mask(
            batch=1,
            query_length=3,
            kv_length=3,
            q_valid=torch.tensor([[True, True, False]]),
            pair=torch.zeros(1, 1, 3, 3),
        )
    assert built.waits
    attend = layer(backend)
    attend(q, q, q, mask)
    with Watched() as called:
        attend(q, q, q, mask)
    assert not called.waits


def test_what_becomes_of_the_parts_changes_nothing() -> None:
    q = torch.randn(1, 3, 2, 4)
    pair = torch.zeros(1, 1, 3, 3)
    mask = build_mask(batch=1, query_length=3, kv_length=3, pair=pair)
    before = layer()(q, q, q, mask)
    pair.fill_(torch.nan)
    assert torch.equal(layer()(q, q, q, mask), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_large_negative_number_stays_finite_in_a_smaller_dtype(dtype: torch.dtype) -> None:
    pair = torch.full((1, 1, 2, 3), -1e300, dtype=torch.float64)
    pair[..., 0, 1] = -torch.inf
    mask = build_mask(batch=1, query_length=2, kv_length=3, pair=pair, dtype=dtype)
    assert mask.allowed is not None and mask.allowed.dtype is dtype
    assert mask.dead is None
    assert (mask.allowed == -torch.inf).sum() == 1
    q, k = torch.randn(1, 2, 2, 4, dtype=dtype), torch.randn(1, 3, 2, 4, dtype=dtype)
    for backend in ("sdpa", "math"):
        assert not layer(backend)(q, k, k, mask).isnan().any()


def test_one_mask_serves_layers_of_any_head_count() -> None:
    mask = build_mask(batch=1, query_length=3, kv_length=3, kv_valid=torch.tensor([[True, False, True]]))
    for heads in (1, 2, 6):
        q = torch.randn(1, 3, heads, 4)
        attend = layer(heads=heads, kv_heads=heads)
        torch.testing.assert_close(attend(q, q, q, mask), attend(q, q[:, ::2], q[:, ::2]))


@pytest.mark.parametrize("backend", ["sdpa", "math"])
def test_documents_and_validity_together_hide_a_row_that_sees_only_its_own(backend: str) -> None:
    kv_valid = torch.tensor([[False, False, True, True]])
    mask = build_mask(batch=1, query_length=4, kv_length=4, kv_valid=kv_valid, packing=pack_self([0, 2, 4]))
    q = torch.randn(1, 4, 2, 4)
    out = layer(backend)(q, q, q, mask)
    assert (out[:, :2] == 0).all() and (out[:, 2:] != 0).all()


def test_a_slice_of_a_mask_is_made_once() -> None:
    mask = build_mask(batch=1, query_length=4, kv_length=4, causal=True)
    assert mask.rows(1, 3) is mask.rows(1, 3)
    assert mask.keys(1, 3) is mask.keys(1, 3)
    assert mask.of_heads(0, 1) is mask


def test_a_slice_of_the_keys_finds_its_own_hidden_rows() -> None:
    mask = build_mask(batch=1, query_length=4, kv_length=4, causal=True)
    assert mask.dead is None
    part = mask.keys(2, 4)
    assert part.dead is not None
    assert part.dead.flatten().tolist() == [True, True, False, False]


def test_a_mask_that_an_inference_used_first_serves_training_too() -> None:
    q = torch.randn(1, 3, 2, 4, requires_grad=True)
    mask = build_mask(batch=1, query_length=3, kv_length=3, kv_valid=torch.tensor([[True, False, True]]))
    attend = layer()
    with torch.inference_mode():
        before = attend(q.detach(), q.detach(), q.detach(), mask)
    out = attend(q, q, q, mask)
    out.sum().backward()
    assert torch.equal(out.detach(), before) and q.grad is not None
