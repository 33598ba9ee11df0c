"""The device's settings where they matter: bytes repeat, TF32 shows, compiled is near eager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.checkpoint.load import load_model
from engine.numerics import Numerics
from engine.transformer.compiled import CompiledTransformer
from engine.transformer.equality import TOLERANCES, predict
from tests.engine.native.small_checkpoint import HEIGHT, WIDTH, write_checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
SIZE = (HEIGHT // 8, WIDTH // 8)


@pytest.fixture(autouse=True)
def settings_stay_as_they_were() -> Iterator[None]:
    yield
    Numerics().apply(torch.device("cpu"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("gpu") / "small")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_forward_repeats_itself_bit_for_bit(folder: Path, dtype: torch.dtype) -> None:
    model = load_model(folder, dtype, "cuda")
    first, second = (predict(model.transformer, SIZE, 5) for _ in range(2))
    assert torch.equal(first, second)


def test_tf32_is_off_unless_it_is_asked_for() -> None:
    a = torch.full((256, 256), 1 + 2**-12, device="cuda")  # one bit more than TF32 keeps
    exact = torch.full_like(a, 256 * (1 + 2**-12))
    Numerics().apply(torch.device("cuda"))
    assert torch.equal(a @ torch.ones_like(a), exact)
    Numerics(tf32=True).apply(torch.device("cuda"))
    assert not torch.equal(a @ torch.ones_like(a), exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compiled_transformer_is_near_the_eager_one(folder: Path, dtype: torch.dtype) -> None:
    eager = load_model(folder, dtype, "cuda")
    compiled = load_model(folder, dtype, "cuda", numerics=Numerics(compiled=True))
    assert isinstance(compiled.transformer, CompiledTransformer)
    assert compiled.revision == f"{eager.revision} compiled"
    expected, came = predict(eager.transformer, SIZE, 5), predict(compiled.transformer, SIZE, 5)
    assert (came - expected).abs().max() <= TOLERANCES[dtype] * expected.abs().max()
