"""One world of the pattern: a walk through its scenery, in transactions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.api import FrozenJson, Tick
from engine.pattern.marks import draw_keys, draw_number
from engine.pattern.scenery import Scenery, View

FIRST_CHUNK_FRAMES = 9
CHUNK_FRAMES = 12
FRAMES_PER_BLOCK = 3

_YAW_DEGREES = 6.0
_PITCH_DEGREES = 4.0
_PITCH_LIMIT = 60.0
_STEP = 0.25

START = View()


@dataclass(frozen=True, slots=True)
class Walk:
    """All that a chunk changes: what is committed, and what a rollback returns to."""

    chunks: int = 0
    frames: int = 0
    view: View = START


class PatternWorld:
    """`render` stages a chunk frame by frame; `commit` keeps it, `rollback` leaves no trace of it."""

    def __init__(self, scenery: Scenery) -> None:
        self.scenery = scenery
        self.walk = Walk()
        self._staged: Walk | None = None

    def render(self, tick: Tick) -> Iterator[NDArray[np.uint8]]:
        """RGB [H, W, 3] for each frame of the next chunk: 9 at first, then 12."""
        walk = self.walk
        view = walk.view
        motions = held_keys(tick.conditioning.get("camera"))
        for index, keys in enumerate(motions):
            count = 1 if walk.chunks == 0 and index == 0 else 4
            target = step(view, keys)
            for part in range(1, count + 1):
                yield self._frame(_between(view, target, part / count), tick, keys)
            view = target
        frames = FIRST_CHUNK_FRAMES if walk.chunks == 0 else CHUNK_FRAMES
        self._staged = Walk(walk.chunks + 1, walk.frames + frames, view)

    def commit(self) -> None:
        """Keep the rendered chunk."""
        assert self._staged is not None, "nothing was rendered"
        self.walk, self._staged = self._staged, None

    def rollback(self) -> None:
        """Forget the rendered chunk, if any."""
        self._staged = None

    def reset(self) -> None:
        """Back to the start."""
        self.walk, self._staged = Walk(), None

    def _frame(self, view: View, tick: Tick, keys: frozenset[str]) -> NDArray[np.uint8]:
        frame = self.scenery.draw(view, tick.prompt)
        draw_number(frame, tick.chunk_index)
        draw_keys(frame, keys)
        return frame


def held_keys(conditioning: FrozenJson) -> tuple[frozenset[str], ...]:
    """The keys of each latent frame of a block; none where the block has another motion, or no camera."""
    motions = conditioning if isinstance(conditioning, tuple) else ()
    held = [frozenset(_keys(motion)) for motion in motions[:FRAMES_PER_BLOCK]]
    return tuple(held + [frozenset()] * (FRAMES_PER_BLOCK - len(held)))


def step(view: View, keys: frozenset[str]) -> View:
    """One latent frame of holding `keys`; axes as in the camera's: x right, z forward, yaw to the right."""
    yaw = view.yaw + _YAW_DEGREES * (("l" in keys) - ("j" in keys))
    pitch = view.pitch + _PITCH_DEGREES * (("i" in keys) - ("k" in keys))
    if abs(pitch) > _PITCH_LIMIT:
        pitch = view.pitch
    forward = _STEP * (("w" in keys) - ("s" in keys))
    right = _STEP * (("d" in keys) - ("a" in keys))
    cos, sin = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    return View(
        x=view.x + sin * forward + cos * right, z=view.z + cos * forward - sin * right, yaw=yaw, pitch=pitch
    )


def _keys(motion: FrozenJson) -> tuple[str, ...]:
    keys = motion.get("keys") if isinstance(motion, Mapping) else None
    return tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, tuple | str) else ()


def _between(start: View, end: View, part: float) -> View:
    return replace(
        end,
        x=start.x + (end.x - start.x) * part,
        z=start.z + (end.z - start.z) * part,
        yaw=start.yaw + (end.yaw - start.yaw) * part,
        pitch=start.pitch + (end.pitch - start.pitch) * part,
    )
