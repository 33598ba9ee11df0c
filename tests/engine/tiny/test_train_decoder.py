from dataclasses import replace
from pathlib import Path

import pytest
import torch
from components_codec import write_components_codec
from rich.progress import Progress

from engine.camera.session_rays import SessionRays
from engine.checkpoint.load import load_model
from engine.codec.tiny import TIME
from engine.tiny.dreams import Dreams, make_dreams, save_dreams
from engine.tiny.export import export
from engine.tiny.frames import psnr, to_float
from engine.tiny.latents import load_codec
from engine.tiny.train_decoder import DecoderOptions, all_dreams, draw_clips, finish, new_run, train_step
from engine.tiny.train_world import WorldOptions
from engine.tiny.train_world import new_run as new_world

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> DecoderOptions:
    """A codec of principal components, an untrained world, and one shard of two short walks."""
    folder = tmp_path_factory.mktemp("decoder")
    write_components_codec(folder / "codec.pt")
    new_world(WorldOptions(), SessionRays()).save(folder / "world.pt")
    run = folder / "run"
    (run / "data").mkdir(parents=True)
    made = make_dreams(0, folder / "codec.pt", folder / "world.pt", None, count=2, length=6)
    save_dreams(made, run / "data" / "0000.pt")
    return DecoderOptions(folder / "codec.pt", folder / "world.pt", run, steps=8, batch=2, shards=1)


@pytest.fixture(scope="module")
def dreams(options: DecoderOptions) -> Dreams:
    with Progress(disable=True) as progress:
        return all_dreams(options, progress)


def test_dreams_are_pictures_with_both_their_latents(options: DecoderOptions, dreams: Dreams) -> None:
    assert dreams.frames.shape == (2, 21, 64, 96, 3)
    assert dreams.true.shape == dreams.own.shape == (2, 6, 16, 8, 12)
    assert not torch.equal(dreams.true, dreams.own)
    codec, mean, std = load_codec(options.codec)
    with torch.no_grad():
        decoded = codec.decode_video(dreams.true.float() * std + mean)
    assert psnr(decoded, to_float(dreams.frames)) > 15


def test_a_clips_pictures_are_those_of_its_latents(options: DecoderOptions, dreams: Dreams) -> None:
    true = replace(options, own_share=0.0, batch=8)
    latents, pictures = draw_clips(true, dreams, torch.Generator().manual_seed(3))
    codec, mean, std = load_codec(options.codec)
    with torch.no_grad():
        decoded = codec.decode_video(latents * std + mean)[:, 1:]
    assert decoded.shape == pictures.shape == (8, TIME * options.span, 3, 64, 96)
    here, later = psnr(decoded[:, :-TIME], pictures[:, :-TIME]), psnr(decoded[:, :-TIME], pictures[:, TIME:])
    assert here > later + 1


def test_the_new_stage_begins_by_changing_nothing(options: DecoderOptions, dreams: Dreams) -> None:
    codec, mean, std = load_codec(options.codec)
    run, *_ = new_run(options)
    latents = dreams.true.float() * std + mean
    with torch.no_grad():
        torch.testing.assert_close(run.codec.decode_video(latents), codec.decode_video(latents))


def test_steps_change_the_decoder_and_never_the_encoder(options: DecoderOptions, dreams: Dreams) -> None:
    run, mean, std = new_run(options)
    before = {name: value.clone() for name, value in run.codec.state_dict().items()}
    for _ in range(3):
        train_step(run, options, dreams, mean, std)
    changed = {n for n, value in run.codec.state_dict().items() if not torch.equal(value, before[n])}
    assert all(name.startswith("decoder.") for name in changed)
    assert {"decoder.edges.look.weight", "decoder.fold.weight"} <= changed


def test_a_resumed_decoder_run_takes_the_same_steps(
    options: DecoderOptions, dreams: Dreams, tmp_path: Path
) -> None:
    heard = replace(options, critic=1.0)
    straight, mean, std = new_run(heard)
    straight.step = 200  # the critic counts
    for step in range(3):
        if step == 1:
            straight.save(tmp_path / "state.pt")
        train_step(straight, replace(heard, steps=400), dreams, mean, std)
    resumed, *_ = new_run(heard)
    resumed.load(tmp_path / "state.pt")
    assert resumed.step == 201
    for _ in range(2):
        train_step(resumed, replace(heard, steps=400), dreams, mean, std)
    for a, b in zip(straight.codec.parameters(), resumed.codec.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_a_decoder_exports_to_a_checkpoint_that_draws_the_same(
    options: DecoderOptions, dreams: Dreams, tmp_path: Path
) -> None:
    run, mean, std = new_run(options)
    for _ in range(2):
        train_step(run, options, dreams, mean, std)
    finish(run.codec, mean, std, tmp_path / "decoder.pt")
    export(tmp_path / "decoder.pt", options.world, tmp_path / "checkpoint")
    served = load_model(tmp_path / "checkpoint").codec
    latents = dreams.true[:1].float()
    shown, _ = served.decode(latents.transpose(1, 2))
    with torch.no_grad():
        expected = run.codec.decode_video(latents * std + mean)
    torch.testing.assert_close(shown, expected, atol=2e-2, rtol=2e-2)


def test_a_second_run_goes_on_from_the_first_ones_decoder(options: DecoderOptions, tmp_path: Path) -> None:
    run, mean, std = new_run(options)
    assert run.codec.decoder.edges is not None
    with torch.no_grad():
        run.codec.decoder.edges.out.weight.fill_(0.125)
    finish(run.codec, mean, std, tmp_path / "decoder.pt")
    second, *_ = new_run(replace(options, codec=tmp_path / "decoder.pt"))
    for a, b in zip(run.codec.parameters(), second.codec.parameters(), strict=True):
        assert torch.equal(a, b)
