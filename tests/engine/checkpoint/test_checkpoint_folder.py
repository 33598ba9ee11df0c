from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.api import Scene
from engine.camera.algebra import IDENTITY
from engine.checkpoint.index import CheckpointRefused
from engine.checkpoint.load import load_model, revision_of
from engine.checkpoint.scenes import read_scenes
from engine.checkpoint.weights import NamesRefused, load_transformer
from engine.codec.streaming import save_tiny_codec
from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.text.words import WordTable
from engine.transformer.config import PRESETS
from engine.transformer.model import WorldTransformer
from engine.world.caches import make_caches
from engine.world.spec import WorldSpec
from engine.world.world import open_world

torch.set_num_threads(1)
CONFIG = replace(PRESETS["tiny"], num_attention_heads=2, attention_head_dim=8, ffn_dim=16, num_layers=2)
WEIGHTS = "diffusion_pytorch_model"


def write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "hills"
    torch.manual_seed(0)
    write_json(folder / "transformer" / "config.json", CONFIG.to_json())
    model = WorldTransformer(CONFIG).half()
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()},
        folder / f"transformer/{WEIGHTS}.safetensors",
    )
    codec = TinyCodecConfig(width=8, middle=8, fine=8, latents_mean=(0.0,) * 16, latents_std=(1.0,) * 16)
    save_tiny_codec(TinyCodec(codec), folder / "vae")
    WordTable.create(("hill",), CONFIG.text_dim).save(folder / "text_encoder")
    write_json(
        folder / "scheduler" / "scheduler_config.json", {"sigmas": [1.0, 0.5], "prediction_type": "sample"}
    )
    classes = ("WorldTransformer", "TinyCodec", "WordTable", "WorldSchedule")
    parts = ("transformer", "vae", "text_encoder", "scheduler")
    index: dict[str, Any] = {part: ["worldline", name] for part, name in zip(parts, classes, strict=True)}
    index["worldline"] = {"width": 64, "height": 48, "fps": 12, "intrinsics": [500, 500, 416, 240]}
    write_json(folder / "model_index.json", index)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "hills"))


def change(path: Path, edit: Callable[[Any], None]) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def test_a_folder_loads_and_plays(folder: Path) -> None:
    model = load_model(folder)
    assert model.card.name == "hills"
    assert (model.card.width, model.card.height, model.card.fps) == (64, 48, 12)
    assert model.dtype is torch.float32
    assert model.schedule.prediction_type == "sample"
    spec = WorldSpec("w", np.zeros((48, 64, 3), np.uint8), "a hill", 0)
    world = open_world(model, spec, make_caches())
    chunk = world.begin_chunk("a hill", ({"keys": ("w",)},) * 3)
    assert sum(1 for _ in chunk.forwards()) == 2
    assert chunk.decode().shape == (9, 48, 64, 3)
    chunk.write()
    world.commit()
    world.close()


def test_shards_are_found_through_their_index(folder: Path) -> None:
    part = folder / "transformer"
    whole = load_file(part / f"{WEIGHTS}.safetensors")
    (part / f"{WEIGHTS}.safetensors").unlink()
    names = sorted(whole)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, held in shards.items():
        save_file({name: whole[name] for name in held}, part / shard)
    weight_map = {name: shard for shard, held in shards.items() for name in held}
    write_json(part / f"{WEIGHTS}.safetensors.index.json", {"weight_map": weight_map})
    loaded = load_transformer(part).state_dict()
    assert all(torch.equal(loaded[name], whole[name].float()) for name in whole)


@pytest.mark.parametrize("weight_map", [None, [], {}, {"head.modulation": 3}])
def test_an_index_that_names_no_shards_is_refused(folder: Path, weight_map: object) -> None:
    write_json(folder / "transformer" / f"{WEIGHTS}.safetensors.index.json", {"weight_map": weight_map})
    with pytest.raises(CheckpointRefused, match=r"index\.json: weight_map: expected an object of file names"):
        load_transformer(folder / "transformer")


def test_every_missing_unknown_and_misshapen_parameter_is_listed(folder: Path) -> None:
    path = folder / f"transformer/{WEIGHTS}.safetensors"
    weights = load_file(path)
    del weights["head.modulation"], weights["blocks.1.modulation"]
    weights["blocks.9.extra"] = torch.zeros(1)
    weights["head.head.bias"] = torch.zeros(3)
    save_file(weights, path)
    with pytest.raises(NamesRefused) as refusal:
        load_model(folder)
    text = str(refusal.value)
    assert "missing: blocks.1.modulation, head.modulation" in text
    assert "unknown: blocks.9.extra" in text
    assert "head.head.bias: shape [3], expected [64]" in text


@pytest.mark.parametrize(
    ("file", "edit", "message"),
    [
        ("model_index.json", lambda data: data.pop("vae"), "vae: expected"),
        (
            "model_index.json",
            lambda data: data.update(vae=["x", "Unheard"]),
            "'Unheard' is unknown; known are TinyCodec",
        ),
        ("model_index.json", lambda data: data["worldline"].update(widht=3), "worldline.widht: unknown"),
        (
            "model_index.json",
            lambda data: data["worldline"].update(width="3"),
            "worldline.width: expected int",
        ),
        (
            "model_index.json",
            lambda data: data["worldline"].update(fps=0),
            "worldline.fps: expected at least 1",
        ),
        ("model_index.json", lambda data: data["worldline"].update(intrinsics=[1]), "worldline.intrinsics"),
        (
            "model_index.json",
            lambda data: data["worldline"].update(intrinsics=[1e-320, 1, 1, 1]),
            "worldline.intrinsics",
        ),
        (
            "model_index.json",
            lambda data: data["worldline"].update(intrinsics=[1, 1, float("nan"), 1]),
            "worldline.intrinsics",
        ),
        ("model_index.json", lambda data: data["worldline"].update(max_pixels=256), "max_pixels: expected"),
        ("model_index.json", lambda data: data["worldline"].update(max_pixels=10**6), "max_pixels: expected"),
        ("transformer/config.json", lambda data: data.pop("ffn_dim"), "ffn_dim: missing"),
        ("scheduler/scheduler_config.json", lambda data: data.update(sigmas=[2]), "sigmas"),
        ("vae/config.json", lambda data: data.update(depth=2), "depth"),
    ],
)
def test_a_wrong_file_is_refused_by_name(
    folder: Path, file: str, edit: Callable[[Any], None], message: str
) -> None:
    change(folder / file, edit)
    with pytest.raises(CheckpointRefused) as refusal:
        load_model(folder)
    assert message in str(refusal.value)
    assert file.partition("/")[0] in str(refusal.value)


@pytest.mark.parametrize(
    "file",
    ["model_index.json", f"transformer/{WEIGHTS}.safetensors", "vae/config.json", "text_encoder/words.json"],
)
def test_a_missing_or_broken_file_is_refused(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"{")
    with pytest.raises(CheckpointRefused):
        load_model(folder)
    (folder / file).unlink()
    with pytest.raises(CheckpointRefused):
        load_model(folder)


@pytest.mark.parametrize("kept", [4, 200, -8])
def test_weights_that_are_cut_short_are_refused_by_name(folder: Path, kept: int) -> None:
    file = folder / f"transformer/{WEIGHTS}.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(CheckpointRefused, match=rf"transformer/{WEIGHTS}\.safetensors"):
        load_model(folder)


def test_the_revision_follows_what_decides_the_pixels(folder: Path) -> None:
    before = revision_of(folder)
    (folder / "README.md").write_text("a card")
    assert revision_of(folder) == before
    change(folder / "scheduler/scheduler_config.json", lambda data: data.update(sigmas=[1.0, 0.4]))
    assert revision_of(folder) != before


def test_a_folder_without_scenes_has_none(folder: Path) -> None:
    assert read_scenes(folder) == ()


def scene(**changes: Any) -> dict[str, Any]:
    return {"name": "top", "title": "The top", "prompt": "a hill", "image": "top.png", **changes}


def test_scenes_say_where_they_stand(folder: Path) -> None:
    (folder / "top.png").write_bytes(b"png")
    origin = [[1, 0, 0, 2], [0, 1, 0, 0], [0, 0, 1, 3], [0, 0, 0, 1]]
    write_json(folder / "scenes.json", [scene(), scene(name="side", origin=origin)])
    top, side = read_scenes(folder)
    assert top.scene == Scene("top", "The top", "a hill", b"png")
    assert top.origin == IDENTITY
    assert side.origin == tuple(tuple(float(x) for x in row) for row in origin)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "expected a list"),
        ([[]], "expected an object"),
        ([scene(title="")], "[0].title"),
        ([scene(), scene()], "'top' is given twice"),
        ([scene(image="none.png")], "there is no"),
        ([scene(origin=[[1, 2], [3, 4]])], "[0].origin"),
        ([scene(origin=[[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])], "[0].origin"),
    ],
)
def test_wrong_scenes_are_refused(folder: Path, data: Any, message: str) -> None:
    (folder / "top.png").write_bytes(b"png")
    write_json(folder / "scenes.json", data)
    with pytest.raises(CheckpointRefused) as refusal:
        read_scenes(folder)
    assert message in str(refusal.value)
