"""A block's camera as vLLM-Omni's LingBot pipeline takes it: three key states, or a pose per video frame.

Keys go as they are, so that its own integration and ray scaling apply; every other motion is carried out
here, and goes as the poses that it leads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from engine.api import Control, FrozenJson
from engine.camera.commands import ACTIONS, TRACK, TRAJECTORY
from engine.camera.intrinsics import REFERENCE_HEIGHT, REFERENCE_WIDTH, Intrinsics
from engine.camera.motion import Path
from engine.world.geometry import TEMPORAL_STRIDE

T = TypeVar("T")


def control_of(motions: Sequence[Mapping[str, Any]], path: Path, width: int, height: int) -> Control:
    """One control for one block; `path` is where `motions` lead at a picture size in pixels."""
    if all("keys" in motion for motion in motions):
        frames = tuple(tuple(motion["keys"]) for motion in motions)
        return Control(TRACK, ACTIONS, {"mode": "frames", "frames": frames})
    poses: FrozenJson = tuple(tuple(tuple(row) for row in pose) for pose in _each_frame(path.poses))
    lenses = _each_frame(tuple(_in_reference(lens, width, height) for lens in path.intrinsics))
    return Control(TRACK, TRAJECTORY, {"poses": poses, "intrinsics": lenses})


def _each_frame(latent: Sequence[T]) -> tuple[T, ...]:
    """Of latent frames, what holds in each video frame of a first block: of nine, it reads 0, 4 and 8."""
    return (latent[0], *(one for one in latent[1:] for _ in range(TEMPORAL_STRIDE)))


def _in_reference(lens: Intrinsics, width: int, height: int) -> Intrinsics:
    across, down = REFERENCE_WIDTH / width, REFERENCE_HEIGHT / height
    fx, fy, cx, cy = lens
    return fx * across, fy * down, cx * across, cy * down
