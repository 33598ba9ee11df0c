"""From a block's motions to its poses and intrinsics: what `CameraReducer.advance` emits, carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import FrozenJson
from engine.camera.algebra import IDENTITY, Pose, compose, pose_of
from engine.camera.integrate import Camera, approach, press, shift
from engine.camera.intrinsics import Intrinsics, at_size

IDLE_MOTION: Mapping[str, FrozenJson] = {"keys": ()}


@dataclass(frozen=True, slots=True)
class Path:
    """A block's camera: the state after each latent frame, and each frame's intrinsics in pixels."""

    cameras: tuple[Camera, ...]
    intrinsics: tuple[Intrinsics, ...]

    @property
    def poses(self) -> tuple[Pose, ...]:
        """Camera-to-world, one per latent frame."""
        return tuple(camera.pose for camera in self.cameras)


@dataclass(frozen=True, slots=True)
class Lens:
    """The session's picture size, and what action mode sees it through; pixels."""

    width: int
    height: int
    default: Intrinsics


def follow(
    camera: Camera,
    motions: Sequence[Mapping[str, Any]],
    lens: Lens,
    origin: Pose = IDENTITY,
) -> Path:
    """Carry out one motion per latent frame, beginning at `camera`; absolute poses are relative to
    `origin`.
    """
    cameras: list[Camera] = []
    intrinsics: list[Intrinsics] = []
    for motion in motions:
        camera = _move(camera, motion, origin)
        cameras.append(camera)
        given = motion.get("intrinsics")
        intrinsics.append(lens.default if given is None else at_size(given, lens.width, lens.height))
    return Path(tuple(cameras), tuple(intrinsics))


def _move(camera: Camera, motion: Mapping[str, Any], origin: Pose) -> Camera:
    if "keys" in motion:
        return press(camera, motion["keys"])
    if "delta" in motion:
        return shift(camera, _rigid(motion["delta"]))
    if "toward" in motion:
        target = compose(origin, _rigid(motion["toward"]))
        return approach(camera, target, motion["toward"]["fraction"])
    assert "pose" in motion, f"a motion is one of keys, delta, toward, pose; got {sorted(motion)}"
    return Camera.at(compose(origin, motion["pose"]))


def _rigid(parts: Mapping[str, Any]) -> Pose:
    return pose_of(parts["rotation"], parts["translation"])
