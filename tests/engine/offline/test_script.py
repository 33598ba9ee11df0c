from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.api import OpenWorld
from engine.camera.algebra import IDENTITY
from engine.camera.commands import Trajectory
from engine.camera.integrate import Camera, press
from engine.camera.rays import ray_embedding
from engine.offline.generate import ticks
from engine.offline.script import ScriptRefused, chunks_of, read_events, trajectory_events

REQUEST = OpenWorld("w", "a meadow", 48, 32, 16, 0, scene="meadow")
LENS = (500.0, 500.0, 416.0, 240.0)


def write(path: Path, *events: object) -> Path:
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in events))
    return path


def test_each_event_moves_its_own_chunk_and_prompts_stay(tmp_path: Path) -> None:
    file = write(
        tmp_path / "walk.jsonl",
        {"event_id": 1, "frames": [["w"], ["W", "l"], []]},
        "",
        {"event_id": 4, "prompt": "a desert"},
        {"event_id": 5, "frames": [["s"], ["s"], ["s"]]},
    )
    asked = list(ticks(REQUEST, read_events(file)))
    assert [tick.chunk_index for tick in asked] == [0, 1, 2]
    assert [tick.event_ids for tick in asked] == [(1,), (4,), (5,)]
    assert [tick.prompt for tick in asked] == ["a meadow", "a desert", "a desert"]
    held = [[tuple(motion["keys"]) for motion in tick.conditioning["camera"]] for tick in asked]
    assert held == [[("w",), ("w", "l"), ()], [(), (), ()], [("s",)] * 3]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ("[" * 100_000, "not JSON"),
        ('{"prompt": "a"}', "event_id: got None, expected an integer of at least 0"),
        ('{"event_id": true}', "event_id: got True"),
        ('{"event_id": -1}', "event_id: got -1"),
        ('{"event_id": 1, "keys": []}', "keys: no such field; allowed are event_id, prompt, frames"),
        ('{"event_id": 1, "prompt": 7}', "prompt: got '7', expected text"),
        ('{"event_id": 1, "prompt": ""}', "prompt: got ''"),
        ('{"event_id": 1, "frames": [["w"]]}', "frames: got 1 items, expected a list of 3 lists of keys"),
        ('{"event_id": 1, "frames": "w"}', "frames: got \"'w'\", expected a list|frames: got 'w'"),
        ('{"event_id": 1, "frames": [["w"], ["x"], []]}', r"frames\[1\].*'x'"),
        ('{"event_id": 1, "frames": [["w"], 3, []]}', r"frames\[1\].*3"),
    ],
)
def test_a_bad_line_is_refused_by_number_and_field(tmp_path: Path, line: str, message: str) -> None:
    file = write(tmp_path / "walk.jsonl", "", line)
    with pytest.raises(ScriptRefused, match=rf"walk\.jsonl:2: .*({message})"):
        read_events(file)


def test_event_ids_rise(tmp_path: Path) -> None:
    file = write(tmp_path / "walk.jsonl", {"event_id": 3}, {"event_id": 3})
    with pytest.raises(ScriptRefused, match=r":2: event_id: got 3, expected an integer of at least 4"):
        read_events(file)


def test_an_empty_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScriptRefused, match="holds 0 events, expected 1 to"):
        read_events(write(tmp_path / "empty.jsonl", "", " "))
    with pytest.raises(ScriptRefused, match=r"none\.jsonl"):
        read_events(tmp_path / "none.jsonl")


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    file = tmp_path / "walk.jsonl"
    file.write_bytes('{"event_id": 1, "prompt": "one\u2028line"}\r\n{"event_id": 2}\r\n'.encode())
    assert [event.prompt for event in read_events(file)] == ["one\u2028line", None]


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(ScriptRefused, match=r"/dev/zero: has more than \d+ bytes"):
        read_events(Path("/dev/zero"))


@pytest.mark.parametrize("num_frames", [-3, 0, 8, 10, 20, 22, 9 + 12 * 10**15])
def test_a_video_is_whole_chunks(num_frames: int) -> None:
    with pytest.raises(ScriptRefused, match=rf"num-frames: got {num_frames}, expected 9 \+ 12 k"):
        chunks_of(num_frames)
    assert [chunks_of(n) for n in (9, 21, 33)] == [1, 2, 3]


def walk(scale: float = 1.0) -> Trajectory:
    camera, poses = Camera(), []
    for keys in ("w", "wd", "w", "wl", "l", "w"):
        camera = press(camera, set(keys))
        poses.append((*((*row[:3], row[3] * scale) for row in camera.pose[:3]), camera.pose[3]))
    return Trajectory(tuple(poses), (LENS,) * len(poses))


def test_a_trajectory_is_one_event_per_chunk_over_the_whole_video() -> None:
    events = trajectory_events(walk(), 2, "unit")
    asked = list(ticks(REQUEST, events))
    poses = [motion["pose"] for tick in asked for motion in tick.conditioning["camera"]]
    assert np.allclose(poses, walk().poses, atol=1e-12)
    assert len(trajectory_events(walk(), 5, "unit")) == 5


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_largest_step_of_a_trajectory_has_length_one(scale: float) -> None:
    asked = list(ticks(REQUEST, trajectory_events(walk(scale), 2, "max")))
    poses = [motion["pose"] for tick in asked for motion in tick.conditioning["camera"]]
    played = ray_embedding(IDENTITY, poses, [LENS] * 6, 48, 32, "unit")
    whole = ray_embedding(IDENTITY, walk(scale).poses, [LENS] * 6, 48, 32, "max")
    assert (played - whole).abs().max() < 1e-6


def test_a_trajectory_that_stands_still_stays_where_it_is() -> None:
    still = Trajectory((IDENTITY,) * 3, (LENS,) * 3)
    events = trajectory_events(still, 1, "max")
    assert events[0].controls[0].data["poses"] == (IDENTITY,) * 3
