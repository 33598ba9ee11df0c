from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.camera.integrate import Camera, press
from engine.checkpoint.load import load_model
from engine.offline.generate import GeneratedChunk
from engine.offline.video import VideoOptions, VideoRefused, open_video
from tests.engine.native.small_checkpoint import write_checkpoint

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("offline") / "small")


@pytest.fixture
def options(folder: Path) -> VideoOptions:
    return VideoOptions(model=str(folder), threads=1, scene="meadow", seed=3, num_frames=33)


def made(options: VideoOptions) -> list[GeneratedChunk]:
    return list(open_video(options).chunks)


def script(path: Path, *frames: list[list[str]]) -> Path:
    path.write_text("\n".join(json.dumps({"event_id": n, "frames": one}) for n, one in enumerate(frames)))
    return path


def test_chunks_follow_one_another_with_their_frames_and_latents(options: VideoOptions) -> None:
    video = open_video(options)
    assert (video.count, video.frames) == (3, 33)
    assert (video.facts["model"], video.facts["seed"], video.facts["frames"]) == ("small", 3, 33)
    chunks = list(video.chunks)
    assert [len(chunk.media.frames) for chunk in chunks] == [9, 12, 12]
    assert [chunk.media.first_frame for chunk in chunks] == [0, 9, 21]
    assert {chunk.latents.shape for chunk in chunks} == {(1, 16, 3, 4, 6)}


def test_the_latents_decode_to_the_frames_at_once(options: VideoOptions, folder: Path) -> None:
    chunks = made(options)
    latents = torch.from_numpy(np.concatenate([chunk.latents for chunk in chunks], axis=2))
    frames, _ = load_model(folder).codec.decode(latents)
    pixels = ((frames[0].clamp(-1, 1) / 2 + 0.5) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    for chunk in chunks:
        own = pixels[chunk.media.first_frame :][: len(chunk.media.frames)]
        assert hashlib.sha256(np.ascontiguousarray(own).data).hexdigest() == chunk.media.digest


def test_the_same_seed_gives_the_same_video_and_another_one_another(options: VideoOptions) -> None:
    first = [chunk.media.frames for chunk in made(options)]
    assert [chunk.media.frames for chunk in made(options)] == first
    assert [chunk.media.frames for chunk in made(replace(options, seed=4))] != first


def test_actions_decide_the_length_and_more_frames_stand_still(options: VideoOptions, tmp_path: Path) -> None:
    walk = script(tmp_path / "walk.jsonl", [["w"]] * 3, [["l"]] * 3)
    short = made(replace(options, actions=walk, num_frames=None))
    long = made(replace(options, actions=walk, num_frames=33))
    assert [len(short), len(long)] == [2, 3]
    assert [chunk.media for chunk in long[:2]] == [chunk.media for chunk in short]


def test_keys_and_their_recorded_trajectory_look_the_same_in_world_units(
    options: VideoOptions, tmp_path: Path, folder: Path
) -> None:
    keys = script(tmp_path / "walk.jsonl", [["w"], ["w", "l"], []], [["l"], ["d"], ["i"]])
    model, camera, poses = load_model(folder), Camera(), []
    for held in (["w"], ["w", "l"], [], ["l"], ["d"], ["i"]):
        camera = press(camera, held)
        poses.append(camera.pose)
    recorded = tmp_path / "root" / "walk"
    recorded.mkdir(parents=True)
    np.save(recorded / "poses.npy", np.array(poses))
    lens = model.lens(48, 32).default
    scale = np.array([832 / 48, 480 / 32] * 2)
    np.save(recorded / "intrinsics.npy", np.tile(np.array(lens) * scale, (6, 1)))
    pressed = made(replace(options, actions=keys, num_frames=None))
    followed = made(
        replace(options, action_dir="walk", trusted_root=tmp_path / "root", scaling="unit", num_frames=21)
    )
    for one, other in zip(pressed, followed, strict=True):
        assert np.abs(one.latents - other.latents).max() < 1e-3


REFUSALS = [
    ({"num_frames": 10}, "num-frames: got 10"),
    ({"num_frames": 0}, "num-frames: got 0"),
    ({"scene": "moon"}, "scene: got 'moon', allowed are meadow, desert"),
    ({"scene": None}, "prompt: is missing"),
    ({"scene": None, "prompt": "a meadow"}, "exactly one of image and scene"),
    ({"width": 50}, "width: got 50"),
    ({"flow_shift": -1.0}, "flow_shift"),
    ({"image": Path("no-such.png")}, "image: no-such.png: No such file"),
    ({"image": Path("/dev/zero"), "scene": None, "prompt": "a"}, "image: /dev/zero has more than"),
    ({"image": Path(__file__), "scene": None, "prompt": "a"}, "not a readable PNG, JPEG or WebP"),
    ({"model": "no-such-folder"}, "no-such-folder: no such folder"),
    ({"model": "owner/name"}, "needs a pinned commit.*got none"),
    ({"model": "owner/name@main"}, "needs a pinned commit.*got 'main'"),
    ({"action_dir": "walk"}, "needs a trusted-root"),
    ({"action_dir": "walk", "trusted_root": Path("no-root")}, "no-root"),
    ({"action_dir": "../walk", "trusted_root": Path(__file__).parent}, "leads out"),
    ({"action_dir": "walk", "actions": Path("a.jsonl")}, "one of them at most"),
    ({"actions": Path("none.jsonl")}, "none.jsonl"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSALS)
def test_what_cant_be_made_is_refused_with_a_reason(
    options: VideoOptions, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(VideoRefused, match=message):
        made(replace(options, **changes))


def test_fewer_frames_than_events_are_refused(options: VideoOptions, tmp_path: Path) -> None:
    walk = script(tmp_path / "walk.jsonl", [["w"]] * 3, [["l"]] * 3)
    with pytest.raises(VideoRefused, match="num-frames: got 9, expected at least 21 for its 2 events"):
        made(replace(options, actions=walk, num_frames=9))
