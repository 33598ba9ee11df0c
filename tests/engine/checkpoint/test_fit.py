from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from engine.checkpoint.fit import require_fit, weight_bytes
from engine.checkpoint.index import CheckpointRefused
from engine.checkpoint.load import load_model
from engine.native.host import NativeHost
from kvcache.capacity import required_bytes
from tests.engine.native.small_checkpoint import HEIGHT, WIDTH, write_checkpoint

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("fit") / "small")


def test_weights_are_counted_from_the_headers(folder: Path) -> None:
    files = list(folder.rglob("*.safetensors"))
    model = load_model(folder)
    assert weight_bytes(folder, torch.bfloat16) * 2 == weight_bytes(folder, torch.float32)
    assert weight_bytes(folder, torch.float32) > sum(p.numel() for p in model.codec.network.parameters()) * 4
    assert len(files) == 3


def test_what_fits_exactly_is_not_refused(folder: Path) -> None:
    weights = weight_bytes(folder, torch.float32)
    model = load_model(folder)
    geometry = model.geometry(WIDTH, HEIGHT)
    session = required_bytes(geometry, 1) - geometry.model_state_bytes - geometry.cross_bytes
    require_fit(folder, torch.float32, weights + session)
    with pytest.raises(CheckpointRefused, match=r"small: weights take .*takes .* more.*pixels would fit"):
        require_fit(folder, torch.float32, weights + session - 1)
    with pytest.raises(CheckpointRefused, match=rf"100 are free; {weights + session} bytes would hold"):
        require_fit(folder, torch.float32, 100)


class SmallMachine(NativeHost):
    def available(self) -> int:
        return 1000


def test_a_host_refuses_before_it_reads_a_weight(folder: Path, tmp_path: Path) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    (spoilt / "text_encoder" / "words.json").unlink()  # loading would complain of it first
    with pytest.raises(CheckpointRefused, match="1000 are free"):
        SmallMachine(spoilt, torch.device("cpu"), 1, 0.8).load()
