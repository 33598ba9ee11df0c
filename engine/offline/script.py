"""What an offline world is told before each chunk: a file of events, or a recorded trajectory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.api import Control, ControlRefused
from engine.camera.algebra import IDENTITY, Pose
from engine.camera.commands import ACTIONS, TRACK, TRAJECTORY, Trajectory
from engine.camera.integrate import MOVE_STEP
from engine.camera.rays import SMALLEST_STEP, Scaling, deltas
from engine.camera.reducer import CameraReducer
from engine.camera.resample import resample

FRAMES_PER_BLOCK: Final = 3
FIRST_CHUNK, LATER_CHUNKS = 9, 12  # pixel frames
MAX_PROMPT: Final = 4096
MAX_LINE: Final = 131_072
MAX_SCRIPT_BYTES: Final = 64 * 2**20
MAX_CHUNKS: Final = 100_000  # 20 hours at 16 fps
MAX_EVENT_ID: Final = 2**63 - 1
FIELDS: Final = ("event_id", "prompt", "frames")


class ScriptRefused(ValueError):
    """A script can't be played: names the line and the field, what came and what is allowed."""


@dataclass(frozen=True, slots=True)
class Event:
    """What is new before one chunk; the prompt stays where it is None."""

    event_id: int
    prompt: str | None = None
    controls: tuple[Control, ...] = ()


def read_events(path: Path) -> tuple[Event, ...]:
    """One event per line, one line per chunk: {"event_id": 1, "prompt": "...", "frames": [["w"], [], []]}.

    `event_id` rises; `prompt` and `frames` (the keys held in each of the chunk's 3 latent frames) may be
    absent. Raises `ScriptRefused`.
    """
    try:
        data = read_at_most(path, MAX_SCRIPT_BYTES)
        lines = None if data is None else data.decode("utf-8").split("\n")  # JSON may hold other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptRefused(f"{path}: {error}") from None
    if lines is None:
        raise ScriptRefused(f"{path}: has more than {MAX_SCRIPT_BYTES} bytes")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            least = events[-1].event_id + 1 if events else 0
            events.append(_event(f"{path}:{number}", line, least))
    if not 1 <= len(events) <= MAX_CHUNKS:
        raise ScriptRefused(f"{path}: holds {len(events)} events, expected 1 to {MAX_CHUNKS}, one per line")
    return tuple(events)


def read_at_most(path: Path, most: int) -> bytes | None:
    """A file's bytes; None where they are more than `most`, however endless. Raises `OSError`."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    return data if len(data) <= most else None


def trajectory_events(trajectory: Trajectory, chunks: int, scaling: Scaling) -> tuple[Event, ...]:
    """A recorded trajectory over a video of `chunks`, one event per chunk.

    It is resampled to the video's latent frames. With `max` its largest step counts as one full step, with
    `unit` its translations are world units.
    """
    poses, lenses = resample(trajectory.poses, trajectory.intrinsics, chunks * FRAMES_PER_BLOCK)
    if scaling == "max":
        poses = _with_largest_step_at_one(poses)
    return tuple(
        Event(chunk, controls=(_piece(poses, lenses, chunk * FRAMES_PER_BLOCK),)) for chunk in range(chunks)
    )


def chunks_of(num_frames: int) -> int:
    """How many chunks a video of `num_frames` pixel frames has. Raises `ScriptRefused`."""
    chunks, rest = divmod(num_frames - FIRST_CHUNK, LATER_CHUNKS)
    if not 0 <= chunks < MAX_CHUNKS or rest:
        allowed = f"{FIRST_CHUNK} + {LATER_CHUNKS} k, e.g. 9, 21, 33, at most {frames_before(MAX_CHUNKS)}"
        raise ScriptRefused(f"num-frames: got {num_frames}, expected {allowed}")
    return chunks + 1


def frames_before(chunk: int) -> int:
    """How many pixel frames come before a chunk."""
    return FIRST_CHUNK + (chunk - 1) * LATER_CHUNKS if chunk else 0


def _with_largest_step_at_one(poses: Sequence[Pose]) -> tuple[Pose, ...]:
    """Scaled so that the largest step is as long as a full step of action mode, which the rays take for 1."""
    largest = float(deltas(IDENTITY, poses)[:, :3, 3].norm(dim=-1).max())
    if largest <= SMALLEST_STEP:
        return tuple(poses)
    scale = MOVE_STEP / largest
    return tuple(tuple((a, b, c, t * scale) for a, b, c, t in pose[:3]) + pose[3:] for pose in poses)


def _piece(poses: Sequence[Pose], lenses: Sequence[tuple[float, ...]], first: int) -> Control:
    piece = slice(first, first + FRAMES_PER_BLOCK)
    return Control(TRACK, TRAJECTORY, {"poses": tuple(poses[piece]), "intrinsics": tuple(lenses[piece])})


def _event(where: str, line: str, least: int) -> Event:
    data = _object(where, line)
    for name in data:
        if name not in FIELDS:
            raise ScriptRefused(f"{where}: {name}: no such field; allowed are {', '.join(FIELDS)}")
    event_id, prompt = data.get("event_id"), data.get("prompt")
    if not isinstance(event_id, int) or isinstance(event_id, bool) or not least <= event_id <= MAX_EVENT_ID:
        raise ScriptRefused(f"{where}: event_id: got {event_id!r}, expected an integer of at least {least}")
    if prompt is not None and not (isinstance(prompt, str) and 0 < len(prompt) <= MAX_PROMPT):
        allowed = f"text of 1 to {MAX_PROMPT} characters"
        raise ScriptRefused(f"{where}: prompt: got {str(prompt)[:60]!r}, expected {allowed}")
    controls = (_keys(where, data["frames"]),) if "frames" in data else ()
    return Event(event_id, prompt, controls)


def _object(where: str, line: str) -> Mapping[str, Any]:
    if len(line) > MAX_LINE:
        raise ScriptRefused(f"{where}: {len(line)} characters, at most {MAX_LINE}")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ScriptRefused(f"{where}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ScriptRefused(f"{where}: got {line[:60]!r}, expected an object")
    return data


def _keys(where: str, frames: object) -> Control:
    if not isinstance(frames, list) or len(frames) != FRAMES_PER_BLOCK:
        came = f"{len(frames)} items" if isinstance(frames, list) else repr(frames)[:60]
        expected = f"a list of {FRAMES_PER_BLOCK} lists of keys"
        raise ScriptRefused(f"{where}: frames: got {came}, expected {expected}")
    frozen = tuple(tuple(keys) if isinstance(keys, list) else keys for keys in frames)
    control = Control(TRACK, ACTIONS, {"mode": "script", "frames": frozen})
    try:
        CameraReducer(FRAMES_PER_BLOCK).validate(control)
    except ControlRefused as refused:
        raise ScriptRefused(f"{where}: {refused.message.removeprefix('data.')}") from None
    return control
