from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from engine.checkpoint.fit import planned_geometry, require_fit, weight_bytes
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
    geometry = load_model(folder).geometry(WIDTH, HEIGHT)
    assert geometry.cross_bytes and geometry.model_state_bytes, "the text and the codec's histories count"
    session = required_bytes(geometry, 1)
    require_fit(folder, torch.float32, weights + session)
    with pytest.raises(CheckpointRefused, match=r"small: weights take .*takes .* more.*pixels would fit"):
        require_fit(folder, torch.float32, weights + session - 1)
    with pytest.raises(CheckpointRefused, match=rf"100 are free; {weights + session} bytes would hold"):
        require_fit(folder, torch.float32, 100)


def test_the_plan_before_loading_is_that_after_it(folder: Path) -> None:
    planned = planned_geometry(folder, torch.float32, 96, 64)
    assert planned == load_model(folder).geometry(96, 64)


@pytest.mark.parametrize(("file", "text"), [("vae/config.json", '{"depth": 2}'), ("vae/config.json", "[")])
def test_a_plan_of_a_wrong_configuration_is_refused_by_its_part(
    folder: Path, tmp_path: Path, file: str, text: str
) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    (spoilt / file).write_text(text)
    with pytest.raises(CheckpointRefused, match=r"spoilt/vae: "):
        require_fit(spoilt, torch.float32, 10**12)


class SmallMachine(NativeHost):
    def available(self) -> int:
        return 1000


def test_a_host_refuses_before_it_reads_a_weight(folder: Path, tmp_path: Path) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    (spoilt / "text_encoder" / "words.json").unlink()  # loading would complain of it
    with pytest.raises(CheckpointRefused, match="1000 are free"):
        SmallMachine(spoilt, torch.device("cpu"), 1, 0.8).load()


def test_the_room_for_shared_chunks_is_not_a_session_s(folder: Path) -> None:
    share = 10**15
    with pytest.raises(CheckpointRefused, match="0 are free"):
        NativeHost(folder, torch.device("cpu"), 1, 0.8, share).load()
