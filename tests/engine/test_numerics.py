"""The device's settings are what docs/gpu.md says, and part of what a model is where they change bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.checkpoint.load import load_model
from engine.native.host import make_host
from engine.numerics import CUBLAS_WORKSPACE, Numerics
from tests.engine.native.small_checkpoint import write_checkpoint

CPU, GPU = torch.device("cpu"), torch.device("cuda")
DOCUMENT = Path(__file__).parents[2] / "docs" / "gpu.md"


@pytest.fixture(autouse=True)
def settings_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    yield
    Numerics().apply(CPU)


def settings() -> dict[str, object]:
    return {
        "torch.backends.cuda.matmul.allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "torch.backends.cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
        "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
        "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }


def documented() -> dict[str, object]:
    """The table's rows: | `setting` | value by default |."""
    rows = [
        line.split("|")[1:3] for line in DOCUMENT.read_text().splitlines() if line.startswith("| `torch.")
    ]
    return {name.strip().strip("`"): value.split()[0].strip(",") == "True" for name, value in rows}


def test_the_default_settings_are_the_documented_ones() -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True  # whatever was there before
    Numerics().apply(GPU)  # touches no device
    assert settings() == documented()
    assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_tf32_is_for_products_and_convolutions() -> None:
    Numerics(tf32=True).apply(GPU)
    changed = {name for name, value in settings().items() if value != documented()[name]}
    assert changed == {"torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32"}


def test_cublas_gets_the_workspace_with_which_it_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    Numerics().apply(CPU)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert not torch.are_deterministic_algorithms_enabled(), "a CPU's kernels repeat themselves anyway"
    Numerics().apply(GPU)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == CUBLAS_WORKSPACE
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    Numerics().apply(GPU)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8", "the operator's own stays"


def test_what_changes_bytes_marks_the_revision(tmp_path: Path) -> None:
    assert Numerics().mark(GPU, compiled=False) == ""
    assert Numerics(tf32=True).mark(CPU, compiled=False) == "", "a CPU has no TF32"
    assert Numerics(tf32=True).mark(GPU, compiled=True) == " tf32 compiled"
    folder = write_checkpoint(tmp_path / "small")
    host = make_host(str(folder), threads=1, tf32=True)
    host.load()
    assert host.revision == load_model(folder).revision
    assert not torch.backends.cudnn.allow_tf32, "each model sets what it wants"
