"""What only a CUDA device can show; flash-attn where it is installed."""

import pytest
import torch

from attention.backends import BACKENDS
from attention.capabilities import Needs
from attention.declaration import Computation, Declaration
from attention.layer import Attention
from attention.masks import build_mask
from attention.packing import pack_cross, pack_self
from attention.selection import BackendPolicy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
flash_only = pytest.mark.skipif(
    BACKENDS["flash"].unavailable() is not None, reason="flash-attn cannot run here"
)
CASES = [pytest.param(name, marks=flash_only if name == "flash" else ()) for name in ("sdpa", "flash")]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to("cuda", torch.bfloat16)


def agree(backend: str, declaration: Declaration, q, k, v, mask=None, layout=None) -> None:
    out = Attention(declaration, BackendPolicy(default=backend))(q, k, v, mask, layout)
    oracle = Attention(declaration, BackendPolicy(default="math"))(q, k, v, mask, layout)
    assert not out.isnan().any()
    torch.testing.assert_close(out.float(), oracle.float(), atol=0.02, rtol=0.02)


@pytest.mark.parametrize("backend", CASES)
@pytest.mark.parametrize(("queries", "keys"), [(180, 1080), (1, 77), (77, 1), (1, 1)])
@pytest.mark.parametrize("kv_heads", [8, 2])
def test_a_gpu_backend_agrees_with_the_oracle(backend, queries, keys, kv_heads) -> None:
    q, k, v = (
        draw(2, queries, 8, 64),
        draw(2, keys, kv_heads, 64, seed=1),
        draw(2, keys, kv_heads, 64, seed=2),
    )
    agree(backend, Declaration(Computation.CROSS, "gpu", 8, kv_heads, 64), q, k, v)


@pytest.mark.parametrize("backend", CASES)
@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (16, 64), (64, 16)])
def test_causal_rows_end_at_the_last_key_on_a_gpu_too(backend, queries, keys) -> None:
    q, k = draw(1, queries, 4, 64), draw(1, keys, 4, 64, seed=1)
    agree(backend, Declaration(Computation.SELF, "gpu", 4, 4, 64, causal=True), q, k, k)


@pytest.mark.parametrize("backend", CASES)
def test_invalid_queries_are_zero_on_a_gpu_too(backend) -> None:
    q = draw(2, 33, 4, 64)
    valid = torch.arange(33, device="cuda") < torch.tensor([[33], [7]], device="cuda")
    mask = build_mask(batch=2, query_length=33, kv_length=33, q_valid=valid)
    agree(backend, Declaration(Computation.SELF, "gpu", 4, 4, 64), q, q, q, mask)


@pytest.mark.parametrize("backend", CASES)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_self_attention_on_a_gpu(backend, causal) -> None:
    q = draw(1, 50, 4, 64)
    declaration = Declaration(Computation.SELF, "gpu", 4, 4, 64, causal=causal)
    agree(backend, declaration, q, q, q, layout=pack_self([0, 20, 21, 50]))


@pytest.mark.parametrize("backend", CASES)
@pytest.mark.parametrize("document_map", [[0, 1, 2], [2, 0, 0], [1, None, 2]])
def test_packed_cross_attention_on_a_gpu(backend, document_map) -> None:
    q, k = draw(1, 50, 4, 64), draw(1, 30, 2, 64, seed=1)
    packing = pack_cross([0, 20, 21, 50], [0, 4, 5, 30], document_map)
    agree(backend, Declaration(Computation.CROSS, "gpu", 4, 2, 64), q, k, k, layout=packing)


@flash_only
def test_the_log_sum_exp_of_flash_is_that_of_the_oracle() -> None:
    q, k = draw(1, 40, 4, 64), draw(1, 70, 2, 64, seed=1)
    needs = Needs(1, 40, 70, 4, 2, 64, q.dtype, q.device, 0.125, partial=True)
    out, logsum = BACKENDS["flash"].bind_partial(needs)(q, k, k, None)
    oracle, exact = BACKENDS["math"].bind_partial(needs)(q, k, k, None)
    torch.testing.assert_close(logsum, exact, atol=1e-2, rtol=0)
    torch.testing.assert_close(out, oracle, atol=0.02, rtol=0.02)


@flash_only
def test_flash_is_what_a_gpu_picks_by_itself() -> None:
    q = draw(1, 40, 4, 64)
    attend = Attention(Declaration(Computation.SELF, "gpu", 4, 4, 64))
    attend(q, q, q)
    assert attend.path is not None and attend.path.backend == "flash"
