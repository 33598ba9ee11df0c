"""A block's camera as vLLM-Omni's LingBot pipeline takes it: three key states, or three poses.

Keys go as they are, so that its own integration and ray scaling apply; every other motion is carried out
here, and goes as the poses that it leads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.api import Control, FrozenJson
from engine.camera.commands import ACTIONS, TRACK, TRAJECTORY
from engine.camera.intrinsics import REFERENCE_HEIGHT, REFERENCE_WIDTH, Intrinsics
from engine.camera.motion import Path


def control_of(motions: Sequence[Mapping[str, Any]], path: Path, width: int, height: int) -> Control:
    """One control for one block; `path` is where `motions` lead at a picture size in pixels."""
    if all("keys" in motion for motion in motions):
        frames = tuple(tuple(motion["keys"]) for motion in motions)
        return Control(TRACK, ACTIONS, {"mode": "frames", "frames": frames})
    poses: FrozenJson = tuple(tuple(tuple(row) for row in pose) for pose in path.poses)
    lenses = tuple(_in_reference(lens, width, height) for lens in path.intrinsics)
    return Control(TRACK, TRAJECTORY, {"poses": poses, "intrinsics": lenses})


def _in_reference(lens: Intrinsics, width: int, height: int) -> Intrinsics:
    across, down = REFERENCE_WIDTH / width, REFERENCE_HEIGHT / height
    fx, fy, cx, cy = lens
    return fx * across, fy * down, cx * across, cy * down
