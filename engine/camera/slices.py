"""Which keys each latent frame gets from a timeline of held keys."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.camera.commands import KEYS, Keys

Transition = tuple[int, Keys]
"""A client time in milliseconds, and the keys that are held from then on."""


def keys_by_slice(timeline: Sequence[Transition], slices: int, width_ms: float) -> tuple[Keys, ...]:
    """Cut a timeline into `slices` of `width_ms`, beginning with its first transition.

    A slice gets the keys that were held in it; a press shorter than a slice counts in exactly one, where
    most of it lies. What happened after the last slice counts there, so that no tap is lost; what is still
    held at the end of the timeline goes on.
    """
    held: list[set[str]] = [set() for _ in range(slices)]
    for key in {key for _, keys in timeline for key in keys}:
        for start, end in _presses(timeline, key):
            for index in _slices_of(start, end, slices, width_ms):
                held[index].add(key)
    return tuple(tuple(key for key in KEYS if key in one) for one in held)


def _presses(timeline: Sequence[Transition], key: str) -> list[tuple[float, float]]:
    """[start, end) of each press of `key`, from the first transition on; the end is inf while it is held."""
    presses: list[tuple[float, float]] = []
    start: float | None = None
    for time, keys in timeline:
        at = float(time - timeline[0][0])
        if key in keys and start is None:
            start = at
        elif key not in keys and start is not None:
            presses.append((start, at))
            start = None
    if start is not None:
        presses.append((start, math.inf))
    return presses


def _slices_of(start: float, end: float, slices: int, width: float) -> list[int]:
    overlaps = [min(end, (i + 1) * width) - max(start, i * width) for i in range(slices)]
    if end == math.inf:
        return [i for i in range(slices) if overlaps[i] > 0]
    if start >= slices * width:
        return [slices - 1]
    if end - start < width:
        return [max(range(slices), key=lambda i: (overlaps[i], -i))]
    return [i for i in range(slices) if overlaps[i] > 0]
