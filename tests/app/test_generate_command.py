"""`worldline generate`, beside the server's own streams of the same session."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from typer.testing import CliRunner

from app.cli import cli
from engine.native.host import make_host
from engine.worker.local import LocalEngine
from tests.engine.native.small_checkpoint import write_checkpoint

torch.set_num_threads(1)
runner = CliRunner()
ACTIONS = "lingbot.camera_actions.v1"
CHUNKS = [[["w"], ["w", "l"], []], [["l"], ["d"], ["i"]], [["s"], ["s"], ["j"]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("generate") / "small")


def generate(folder: Path, *options: object) -> Any:
    fixed = ["--model", folder, "--threads", 1, "--scene", "meadow", "--seed", 9]
    return runner.invoke(cli, ["generate", *map(str, fixed), *map(str, options)])


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "walk.jsonl"
    events = [{"event_id": n + 1, "frames": frames} for n, frames in enumerate(CHUNKS)]
    events[1]["prompt"] = "a desert"
    path.write_text("\n".join(map(json.dumps, events)))
    return path


def test_a_video_its_latents_and_its_facts_are_written(folder: Path, walk: Path, tmp_path: Path) -> None:
    video, latents, facts = (tmp_path / name for name in ("v.mp4", "v.safetensors", "v.json"))
    done = generate(
        folder, video, "--actions", walk, "--save-latents", latents, "--metadata", facts, "--fps", 12
    )
    assert done.exit_code == 0, done.output
    with av.open(str(video)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert container.streams.video[0].average_rate == 12
    assert (len(frames), frames[0].shape) == (33, (32, 48, 3))
    assert load_file(latents)["latents"].shape == (1, 16, 9, 4, 6)
    said = json.loads(facts.read_text())
    assert (said["model"], said["seed"], said["frames"], len(said["revision"])) == ("small", 9, 33, 64)
    assert [chunk["event_ids"] for chunk in said["chunks"]] == [[1], [2], [3]]
    assert [chunk["prompt"] for chunk in said["chunks"]] == ["a meadow", "a desert", "a desert"]
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "v.json", "v.mp4", "v.safetensors", "walk.jsonl"
    ]  # fmt: skip


async def test_it_is_byte_for_byte_what_a_stepped_session_streams(
    folder: Path, walk: Path, tmp_path: Path, start_server: Callable[..., Awaitable[Any]]
) -> None:
    assert generate(folder, tmp_path / "v.mp4", "--actions", walk).exit_code == 0
    server = await start_server(LocalEngine(make_host(str(folder), threads=1)))
    fields = {"scene": "meadow", "prompt": "a meadow", "seed": 9, "mode": "stepped"}
    extra = {"camera_action_script": CHUNKS[:1]}  # the first chunk comes by the script
    async with server.client.stream(**fields, extra_params=extra) as stream:
        streamed = (await stream.chunk()).data
        for prompt, frames in (("a desert", CHUNKS[1]), (None, CHUNKS[2])):
            camera = {"schema": ACTIONS, "data": {"mode": "script", "frames": frames}}
            await stream.interact(camera=camera, prompt=prompt)
            streamed += (await stream.chunk()).data
    assert (tmp_path / "v.mp4").read_bytes() == streamed


async def test_it_is_byte_for_byte_what_a_continuous_session_streams(
    folder: Path, tmp_path: Path, start_server: Callable[..., Awaitable[Any]]
) -> None:
    walk = tmp_path / "walk.jsonl"
    walk.write_text("\n".join(json.dumps({"event_id": n, "frames": f}) for n, f in enumerate(CHUNKS)))
    assert generate(folder, tmp_path / "v.mp4", "--actions", walk).exit_code == 0
    server = await start_server(LocalEngine(make_host(str(folder), threads=1)))
    extra = {"camera_action_script": CHUNKS, "pace_to_media_time": False}
    fields = {"scene": "meadow", "prompt": "a meadow", "seed": 9, "num_frames": 33, "extra_params": extra}
    async with server.client.stream(**fields) as stream:
        streamed = b"".join([(await stream.chunk()).data for _ in CHUNKS])
        await stream.done()
    assert (tmp_path / "v.mp4").read_bytes() == streamed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-frames", "10"], "num-frames: got 10, expected 9 + 12 k"),
        (["--action-dir", "../out"], "needs a trusted-root"),
        (["--action-dir", "../out", "--trusted-root", "{root}"], "`..` is not allowed"),
        (["--action-dir", "/etc", "--trusted-root", "{root}"], "is absolute"),
        (["--action-dir", "pickled", "--trusted-root", "{root}"], "pickled/poses.npy: dtype object: pickled"),
        (
            ["--save-latents", "no/such/folder/l.safetensors"],
            "no/such/folder/l.safetensors: can't be written",
        ),
        (["--metadata", "{root}"], "root: can't be written: no such folder, or it is one itself"),
        (["--metadata", "{root}/fifo"], "root/fifo: can't be written: it is not a regular file"),
        (["--save-latents", "{root}/../v.mp4"], "v.mp4: is given twice, and would be overwritten"),
        (["--actions", "{root}/walk", "--metadata", "{root}/walk"], "walk: is given twice"),
        (["--num-frames", "9", "--metadata", "{root}/" + 253 * "m"], "can't be written: File name too long"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_no_file(
    folder: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "root" / "pickled").mkdir(parents=True)
    np.save(tmp_path / "root" / "pickled" / "poses.npy", np.array([{}]), allow_pickle=True)
    os.mkfifo(tmp_path / "root" / "fifo")
    given = [option.format(root=tmp_path / "root") for option in options]
    refused = generate(folder, tmp_path / "v.mp4", *given)
    assert refused.exit_code == 1
    assert refused.output.startswith("worldline generate: ") and message in refused.output
    assert len(refused.output.splitlines()) == 1
    assert {one.name for one in tmp_path.iterdir()} <= {"root", "v.mp4"}
    assert (tmp_path / "v.mp4").exists() == ("too long" in message), "the video itself was made"
