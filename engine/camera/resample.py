"""Trajectories at another number of frames."""

from __future__ import annotations

from collections.abc import Sequence

from engine.camera.algebra import Pose, between, lerp
from engine.camera.intrinsics import Intrinsics


def resample(
    poses: Sequence[Pose], intrinsics: Sequence[Intrinsics], frames: int
) -> tuple[tuple[Pose, ...], tuple[Intrinsics, ...]]:
    """Both grids are linspace(0, 1).

    The ends stay. Rotations by slerp on the shorter arc, the rest linear.
    """
    last = len(poses) - 1
    resampled: list[Pose] = []
    lenses: list[Intrinsics] = []
    for index in range(frames):
        place = last * index / (frames - 1) if frames > 1 else 0.0
        low = min(int(place), max(last - 1, 0))
        high = min(low + 1, last)
        fraction = place - low
        resampled.append(between(poses[low], poses[high], fraction) if fraction else poses[low])
        fx, fy, cx, cy = lerp(intrinsics[low], intrinsics[high], fraction)
        lenses.append((fx, fy, cx, cy))
    return tuple(resampled), tuple(lenses)
