"""Focal lengths and centres (fx, fy, cx, cy)."""

from __future__ import annotations

from collections.abc import Sequence

Intrinsics = tuple[float, float, float, float]

REFERENCE_WIDTH = 832
REFERENCE_HEIGHT = 480
LINGBOT_FOCAL = 500.0  # pixels at any target size
SMALLEST_FOCAL = 1e-3  # pixels of the reference frame: rays through a much shorter one are no numbers


def at_size(reference: Sequence[float], width: int, height: int) -> Intrinsics:
    """Intrinsics given in the 832x480 reference frame, in pixels of a target of `width` x `height`."""
    fx, fy, cx, cy = reference
    across, down = width / REFERENCE_WIDTH, height / REFERENCE_HEIGHT
    return fx * across, fy * down, cx * across, cy * down


def default_at_size(reference: Sequence[float] | None, width: int, height: int) -> Intrinsics:
    """What action mode uses: the checkpoint's own (in the reference frame), or LingBot's 500 pixels."""
    if reference is not None:
        return at_size(reference, width, height)
    return LINGBOT_FOCAL, LINGBOT_FOCAL, width / 2, height / 2
