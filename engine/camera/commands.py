"""What a camera control asks for, once it has been read.

Schemas of the track `camera`: `lingbot.camera_actions.v1` (held keys, or a script of them),
`lingbot.camera_trajectory.v1`, and `vllm_omni.camera_se3.v1` (velocity, or a target to be reached).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.api import Control, ControlRefused, FrozenJson
from engine.camera.algebra import (
    Pose,
    Quaternion,
    Vector,
    normalised,
    pose_of,
    rotation_from,
)
from engine.camera.intrinsics import SMALLEST_FOCAL, Intrinsics
from engine.camera.payload import (
    choice_of,
    fields_of,
    items_of,
    number_of,
    numbers_of,
    refuse,
    whole_of,
)

TRACK = "camera"
ACTIONS = "lingbot.camera_actions.v1"
TRAJECTORY = "lingbot.camera_trajectory.v1"
SE3 = "vllm_omni.camera_se3.v1"
SCHEMAS = (ACTIONS, TRAJECTORY, SE3)

KEYS = "wasdijkl"
MAX_TRANSITIONS = 1024
MAX_FRAMES = 4096
MAX_CHUNKS = 10_000
MAX_TRANSLATION = 1e6  # world units: what float64 poses still resolve well below a step
MAX_MILLISECONDS = 2**53 - 1
RIGID_TOLERANCE = 1e-3

Keys = tuple[str, ...]
"""Held keys in the order of `KEYS`."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keys held from each transition to the next; times in client milliseconds, or None without a clock."""

    transitions: tuple[Keys, ...]
    times: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Script:
    """A queue of keys, one set per latent frame."""

    frames: tuple[Keys, ...]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Poses in the frame of the session's origin, intrinsics in the 832x480 reference frame."""

    poses: tuple[Pose, ...]
    intrinsics: tuple[Intrinsics, ...]


@dataclass(frozen=True, slots=True)
class Velocity:
    """A motion per latent frame, in our axes (y down)."""

    delta: Pose


@dataclass(frozen=True, slots=True)
class Target:
    """A pose in the frame of the session's origin, in our axes, to be reached over `chunks` chunks."""

    pose: Pose
    chunks: int


Command = Hold | Script | Trajectory | Velocity | Target


def read(control: Control) -> Command:
    """What `control` asks for. Raises `ControlRefused`."""
    if control.track != TRACK:
        raise refuse("track", control.track, TRACK)
    if control.schema == ACTIONS:
        return _actions(control.data)
    if control.schema == TRAJECTORY:
        return read_trajectory(control.data)
    if control.schema == SE3:
        return _se3(control.data)
    raise refuse("schema", control.schema, "one of " + ", ".join(SCHEMAS))


def _actions(data: FrozenJson) -> Hold | Script:
    if isinstance(data, Mapping) and data.get("mode") == "state":
        fields = fields_of(data, "data", ("mode", "transitions"))
        return _hold(items_of(fields["transitions"], "data.transitions", 1, MAX_TRANSITIONS))
    named = fields_of(data, "data", ("mode",), ("transitions", "frames"))
    choice_of(named["mode"], "data.mode", ("state", "script"))
    fields = fields_of(data, "data", ("mode", "frames"))
    frames = items_of(fields["frames"], "data.frames", 0, MAX_FRAMES)
    return Script(tuple(_keys(one, f"data.frames[{i}]") for i, one in enumerate(frames)))


def _hold(items: tuple[FrozenJson, ...]) -> Hold:
    keys: list[Keys] = []
    times: list[int] = []
    for i, item in enumerate(items):
        path = f"data.transitions[{i}]"
        fields = fields_of(item, path, ("actions",), ("client_ts_ms",))
        keys.append(_keys(fields["actions"], f"{path}.actions"))
        if "client_ts_ms" not in fields:
            continue
        at = f"{path}.client_ts_ms"
        time = whole_of(fields["client_ts_ms"], at, MAX_MILLISECONDS)
        if len(times) != i:
            raise ControlRefused(at, f"{at}: either every transition has a timestamp, or none")
        if times and time < times[-1]:
            raise refuse(at, time, f"at least {times[-1]}, the timestamp before it")
        times.append(time)
    if times and len(times) != len(items):
        at = f"data.transitions[{len(times)}].client_ts_ms"
        raise ControlRefused(at, f"{at}: missing; either every transition has a timestamp, or none")
    return Hold(tuple(keys), tuple(times) if times else None)


def _keys(value: FrozenJson, path: str) -> Keys:
    items = items_of(value, path, 0, 64)
    held = set()
    for i, item in enumerate(items):
        if not isinstance(item, str) or len(item) != 1 or item.lower() not in KEYS:
            raise refuse(f"{path}[{i}]", item, f"one of {' '.join(KEYS)}")
        held.add(item.lower())
    return tuple(key for key in KEYS if key in held)


def read_trajectory(data: FrozenJson) -> Trajectory:
    """The data of a trajectory control. Raises `ControlRefused`."""
    fields = fields_of(data, "data", ("poses", "intrinsics"))
    poses = items_of(fields["poses"], "data.poses", 1, MAX_FRAMES)
    lenses = items_of(fields["intrinsics"], "data.intrinsics", 1, MAX_FRAMES)
    if len(lenses) != len(poses):
        message = f"data.intrinsics: got {len(lenses)} items, expected {len(poses)}, as many as data.poses"
        raise ControlRefused("data.intrinsics", message)
    return Trajectory(
        tuple(_pose(pose, f"data.poses[{i}]") for i, pose in enumerate(poses)),
        tuple(_intrinsics(lens, f"data.intrinsics[{i}]") for i, lens in enumerate(lenses)),
    )


def _pose(value: FrozenJson, path: str) -> Pose:
    rows = items_of(value, path, 4, 4)
    a, b, c, d = (numbers_of(row, f"{path}[{i}]", 4, MAX_TRANSLATION) for i, row in enumerate(rows))
    problem = rigid_problem((a, b, c, d))
    if problem is not None:
        raise ControlRefused(path, f"{path}: {problem}")
    return tuple((row[0], row[1], row[2], row[3]) for row in (a, b, c, d))


def rigid_problem(rows: tuple[tuple[float, ...], ...]) -> str | None:
    """Why a finite 4x4 matrix is no camera-to-world pose, or None."""
    if max(abs(got - want) for got, want in zip(rows[3], (0, 0, 0, 1), strict=True)) > RIGID_TOLERANCE:
        return f"got {list(rows[3])} as the last row, expected [0, 0, 0, 1]"
    columns = [[rows[i][j] for i in range(3)] for j in range(3)]
    for i in range(3):
        for j in range(i, 3):
            dot = sum(p * q for p, q in zip(columns[i], columns[j], strict=True))
            if abs(dot - (i == j)) > RIGID_TOLERANCE:
                return "expected a rotation in the upper left 3x3 (orthonormal columns)"
    (a, b, c), (d, e, f), (g, h, i_) = columns
    if a * (e * i_ - f * h) - b * (d * i_ - f * g) + c * (d * h - e * g) < 0:
        return "expected a rotation in the upper left 3x3, got a reflection"
    return None


def _intrinsics(value: FrozenJson, path: str) -> Intrinsics:
    fx, fy, cx, cy = numbers_of(value, path, 4, MAX_TRANSLATION)
    for i, focal in enumerate((fx, fy)):
        if focal < SMALLEST_FOCAL:
            raise refuse(f"{path}[{i}]", focal, f"a positive focal length, at least {SMALLEST_FOCAL}")
    return fx, fy, cx, cy


def _se3(data: FrozenJson) -> Velocity | Target:
    fields = fields_of(data, "data", ("mode", "data"), ("transition_chunks",))
    mode = choice_of(fields["mode"], "data.mode", ("target", "velocity"))
    chunks = whole_of(fields.get("transition_chunks", 1), "data.transition_chunks", MAX_CHUNKS)
    inner = fields_of(fields["data"], "data.data", ("translation", "rotation"))
    x, y, z = numbers_of(inner["translation"], "data.data.translation", 3, MAX_TRANSLATION)
    parts = items_of(inner["rotation"], "data.data.rotation", 4, 4)
    qx, qy, qz, qw = (number_of(part, f"data.data.rotation[{i}]", 1e3) for i, part in enumerate(parts))
    if math.hypot(qx, qy, qz, qw) < 1e-3:
        raise refuse("data.data.rotation", [qx, qy, qz, qw], "a quaternion [x, y, z, w] that is not zero")
    pose = _down((x, y, z), normalised((qx, qy, qz, qw)))
    return Velocity(pose) if mode == "velocity" else Target(pose, chunks)


def _down(translation: Vector, rotation: Quaternion) -> Pose:
    """From axes with y up to ours with y down: mirrored on both sides, which keeps turns about y alone."""
    x, y, z = translation
    qx, qy, qz, qw = rotation
    return pose_of(rotation_from((-qx, qy, -qz, qw)), (x, -y, z))
