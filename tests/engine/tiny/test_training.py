from pathlib import Path

import pytest
import torch
from components_codec import components_codec, write_components_codec

from engine.camera.session_rays import SessionRays
from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.text.words import WordTable
from engine.tiny.export import export
from engine.tiny.frames import clip, to_float
from engine.tiny.latents import make_shard, save_shard
from engine.tiny.train_codec import start_from_components, train_step
from engine.tiny.train_world import TEXT_DIM, ShardFolder, WorldOptions, blank_latent, new_run, shard_path
from engine.tiny.train_world import train_step as world_step
from engine.tiny.words import WORDS

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> WorldOptions:
    """A codec of principal components and four shards of two walks."""
    folder = tmp_path_factory.mktemp("tiny")
    write_components_codec(folder / "codec.pt")
    options = WorldOptions(folder / "codec.pt", folder / "world", blocks=2, walks=2, shards=8)
    (options.run / "data").mkdir(parents=True)
    for index in range(4):
        walks = make_shard(index, options.codec, None, count=2)
        save_shard(walks, shard_path(options.run / "data", index))
    return options


def test_a_codec_of_principal_components_already_shows_the_picture() -> None:
    codec, video = components_codec()
    with torch.no_grad():
        decoded = codec.decode_video(codec.encode_video(video))
    assert float((decoded - video).pow(2).mean()) < 0.15 * float(video.var())


def test_a_step_makes_the_codec_better() -> None:
    torch.manual_seed(0)
    codec = TinyCodec(TinyCodecConfig())
    video = to_float(clip(1, 0, 3).frames)[None]
    start_from_components(codec, video)
    optimizer = torch.optim.AdamW(codec.parameters(), lr=5e-5)
    losses = [train_step(codec, optimizer, video, torch.Generator().manual_seed(0)) for _ in range(6)]
    assert losses[-1] < losses[0]


def test_how_many_shards_count_depends_on_the_step_alone(run: WorldOptions) -> None:
    fresh = ShardFolder(run.run / "data", 4)
    assert len(fresh.walks(0).place) == 8
    resumed = ShardFolder(run.run / "data", 4)
    assert torch.equal(resumed.walks(1000).latents, fresh.walks(1000).latents)


def test_a_resumed_run_takes_the_same_steps(run: WorldOptions) -> None:
    rays, table = SessionRays(), WordTable.create(WORDS, TEXT_DIM)
    walks = ShardFolder(run.run / "data", 4).walks(0)
    constant = blank_latent(walks)
    straight = new_run(run, rays)
    for step in range(3):  # two without context, one with it
        kind, _ = world_step(straight, run, walks, constant, rays, table)
        assert kind == ("walk" if step == 2 else "block")
        if step == 1:
            straight.save(run.run / "state.pt")
    resumed = new_run(run, rays)
    resumed.load(run.run / "state.pt")
    assert resumed.step == 2
    world_step(resumed, run, walks, constant, rays, table)
    for a, b in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_a_run_exports_to_a_checkpoint_that_loads(run: WorldOptions, tmp_path: Path) -> None:
    from engine.checkpoint.load import load_model
    from engine.checkpoint.scenes import read_scenes

    new_run(run, SessionRays()).save(run.run / "fresh.pt")
    export(run.codec, run.run / "fresh.pt", tmp_path)
    model = load_model(tmp_path)
    assert model.schedule.prediction_type == "sample"
    assert (model.card.width, model.card.height) == (96, 64)
    scenes = read_scenes(tmp_path)
    assert len(scenes) == 12
    assert all(model.text_encoder.encode(one.scene.prompt).any() for one in scenes)
