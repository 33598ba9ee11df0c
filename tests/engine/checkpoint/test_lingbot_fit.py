"""Whether the published checkpoint fits, at its real sizes: headers and holes, no weights."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
import torch

from engine.checkpoint.fit import planned_geometry, require_fit, weight_bytes
from engine.checkpoint.index import CheckpointRefused
from engine.checkpoint.weights import build_on_meta
from engine.native.host import NativeHost
from engine.transformer.config import PRESETS
from engine.world.geometry import geometry_of
from kvcache.capacity import required_bytes
from tests.engine.native.small_checkpoint import write_json

pytest.importorskip("diffusers", reason="needs the extra `lingbot`: pip install -e '.[lingbot]'")
pytest.importorskip("transformers", reason="needs the extra `lingbot`: pip install -e '.[lingbot]'")

GIB = 2**30
CONFIG = PRESETS["lingbot-world-v2-14b"]
HISTORIES = 3_009_976_320  # bytes at 832x480, as docs/gpu.md gives them
OTHERS = {"vae": 127_000_000, "text_encoder": 5_680_000_000}  # parameters, as docs/gpu.md adds them up


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "lingbot"
    classes = {"vae": "AutoencoderKLWan", "text_encoder": "UMT5EncoderModel", "scheduler": "Scheduler"}
    parts = {part: ["library", name] for part, name in {"transformer": "World", **classes}.items()}
    write_json(folder / "model_index.json", parts)
    write_json(folder / "transformer" / "config.json", CONFIG.to_json())
    shapes = {name: tuple(value.shape) for name, value in build_on_meta(CONFIG).state_dict().items()}
    write_header(folder / "transformer" / "diffusion_pytorch_model.safetensors", shapes)
    write_json(folder / "vae" / "config.json", {"_class_name": "AutoencoderKLWan"})
    for part, parameters in OTHERS.items():
        write_header(folder / part / "model.safetensors", {"all": (parameters,)})
    return folder


def write_header(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """A safetensors file of bf16 zeros that takes no room on the disk."""
    table, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * torch.Size(shape).numel()
        table[name] = {"dtype": "BF16", "shape": shape, "data_offsets": (begin, end)}
    header = json.dumps(table).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + end)


class Device(NativeHost):
    """A GPU that says how much of it is free; nothing may be put on it."""

    free = 0

    def available(self) -> int:
        return self.free

    def _dtype(self) -> torch.dtype:
        return torch.bfloat16


def test_the_weights_are_those_of_the_memory_table(folder: Path) -> None:
    assert weight_bytes(folder, torch.bfloat16) / GIB == pytest.approx(45.4, abs=0.1)


@pytest.mark.parametrize(
    ("free", "told"),
    [
        (24 * GIB, r"a session of 832x480 takes \d+ more, 25769803776 are free; \d+ bytes would hold one"),
        (60 * GIB, r"64424509440 are free; pictures of up to about \d+ pixels would fit"),
    ],
)
def test_a_device_that_is_too_small_is_refused_before_anything_is_loaded(
    folder: Path, free: int, told: str
) -> None:
    host = Device(folder, torch.device("cpu"), 1, 0.8)
    host.free = free
    with pytest.raises(CheckpointRefused, match=told):
        host.load()


def test_what_is_said_to_fit_does(folder: Path) -> None:
    free = 60 * GIB
    with pytest.raises(CheckpointRefused) as refused:
        require_fit(folder, torch.bfloat16, free)
    pixels = int(re.findall(r"about (\d+) pixels", str(refused.value))[0])
    assert 16 * 16 < pixels < 832 * 480
    index = json.loads((folder / "model_index.json").read_text())
    side = int(pixels**0.5) // 16 * 16
    smaller = {**index, "worldline": {"width": side, "height": side}}
    try:
        write_json(folder / "model_index.json", smaller)
        require_fit(folder, torch.bfloat16, free)
    finally:
        write_json(folder / "model_index.json", index)


def test_a_device_of_141_gb_holds_one(folder: Path) -> None:
    require_fit(folder, torch.bfloat16, 141 * 10**9)


def test_the_session_is_that_of_the_capacity_plan(folder: Path) -> None:
    session = geometry_of(CONFIG, torch.bfloat16, 832, 480, 512, HISTORIES)
    assert planned_geometry(folder, torch.bfloat16, 832, 480) == session
    needed = weight_bytes(folder, torch.bfloat16) + required_bytes(session, 1)
    require_fit(folder, torch.bfloat16, needed)
    with pytest.raises(CheckpointRefused):
        require_fit(folder, torch.bfloat16, needed - 1)
