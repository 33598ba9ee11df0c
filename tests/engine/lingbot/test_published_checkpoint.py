from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint.fit import planned_geometry
from engine.checkpoint.index import CheckpointRefused
from engine.checkpoint.load import load_model, revision_of
from engine.checkpoint.tensors import NamesRefused
from engine.codec.image import ImageEncoder
from engine.world.model import Model
from engine.world.world import World
from tests.engine.lingbot.published_layout import CONFIG, HEIGHT, WEIGHTS, WIDTH
from tests.engine.lingbot.published_world import opened, play
from tests.engine.world.small_world import finish

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model(published: Path) -> Model:
    return load_model(published)


@pytest.fixture
def world(model: Model) -> Iterator[World]:
    world = opened(model)
    yield world
    world.close()


def test_the_published_layout_loads_and_plays(model: Model, world: World) -> None:
    assert model.card.name == "published"
    assert model.schedule.timesteps == pytest.approx((1000, 937.5, 833.333333, 625))
    assert model.text_encoder.encode("a meadow").shape == (1, 512, CONFIG.text_dim)
    assert [play(world).shape for _ in range(3)] == [(9, 32, 48, 3), (12, 32, 48, 3), (12, 32, 48, 3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_a_session_takes_is_known_before_anything_is_loaded(published: Path, dtype: torch.dtype) -> None:
    planned = planned_geometry(published, dtype, WIDTH, HEIGHT)
    assert planned == load_model(published, dtype).geometry(WIDTH, HEIGHT)
    assert planned.cross_tokens == 512
    assert planned.model_state_bytes > 0


def test_streamed_chunks_are_the_decoding_of_all_latents_at_once(model: Model, world: World) -> None:
    frames, latents = [], []
    for key in "wdl":
        chunk = world.begin_chunk("a meadow", ({"keys": (key,)},) * 3)
        frames.append(finish(chunk))
        assert chunk.clean is not None
        latents.append(chunk.clean)
        world.commit()
    whole, _ = model.codec.decode(torch.cat(latents, dim=2))
    expected = ((whole[0].clamp(-1, 1) / 2 + 0.5) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    assert np.array_equal(np.concatenate(frames), expected.numpy())


def test_past_the_flush_the_image_condition_is_reused_and_is_what_encoding_gives(model: Model) -> None:
    encoder = ImageEncoder(model.codec)
    state = encoder.start(torch.rand(3, HEIGHT, WIDTH) * 2 - 1)
    blank = torch.zeros(1, 12, 3, HEIGHT, WIDTH)
    while state.constant is None:
        before = state
        _, state = encoder.next(state)
    assert before.blanks >= model.codec.flush_frames
    encoded, history = model.codec.encode(blank, before.history)
    again, _ = model.codec.encode(blank, history)
    reused, after = encoder.next(state)
    assert torch.equal(reused, encoded)
    assert torch.equal(reused, again)
    assert after is state
    assert state.history == (), "what nothing will read is not kept"


def test_a_checkpoint_without_safetensors_is_refused(folder: Path) -> None:
    weights = folder / "vae" / WEIGHTS
    torch.save(load_file(weights), folder / "vae" / "diffusion_pytorch_model.bin")
    weights.unlink()
    with pytest.raises(CheckpointRefused, match=r"vae: no weights; expected .*safetensors"):
        load_model(folder)


@pytest.mark.parametrize("part", ["vae", "text_encoder"])
def test_other_parameters_are_listed(folder: Path, part: str) -> None:
    file = next((folder / part).glob("*.safetensors"))
    weights = load_file(file)
    gone = sorted(weights)[-1]
    weights["extra.weight"] = weights.pop(gone)
    save_file(weights, file)
    with pytest.raises(NamesRefused, match=rf"missing: .*{gone}; unknown: extra.weight"):
        load_model(folder)


def test_a_missing_tokenizer_is_refused(folder: Path) -> None:
    for file in (folder / "tokenizer").iterdir():
        file.unlink()
    with pytest.raises(CheckpointRefused, match=r"tokenizer: no tokenizer; expected tokenizer\.json or"):
        load_model(folder)


def test_a_configuration_that_the_text_encoder_s_library_refuses_is_named(folder: Path) -> None:
    (folder / "text_encoder" / "config.json").write_text('{"d_model": "x"}')
    with pytest.raises(CheckpointRefused, match=r"text_encoder/config\.json: .*d_model"):
        load_model(folder)


def test_the_revision_covers_the_tokenizer(folder: Path) -> None:
    before = revision_of(folder)
    (folder / "tokenizer" / "tokenizer_config.json").write_text("{}")
    assert revision_of(folder) != before


class WithoutDiffusers:
    """An import finder of a machine without the extra."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] == "diffusers":
            raise ModuleNotFoundError(f"No module named {name!r}", name="diffusers")


def test_without_the_extra_the_refusal_says_what_to_install(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.startswith(("diffusers", "engine.codec.wan"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutDiffusers(), *sys.meta_path])
    with pytest.raises(CheckpointRefused, match=r"needs diffusers.*pip install 'worldline\[lingbot\]'"):
        load_model(published)
