"""One world of the pattern: a walk through its scenery, in transactions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.api import FrozenJson, Tick
from engine.camera.algebra import translation_of
from engine.camera.integrate import Camera
from engine.camera.motion import IDLE_MOTION, Lens, follow
from engine.pattern.marks import draw_keys, draw_number
from engine.pattern.scenery import Scenery, View

FIRST_CHUNK_FRAMES = 9
CHUNK_FRAMES = 12
FRAMES_PER_BLOCK = 3

STEPS_PER_UNIT = 5.0
"""Squares of the ground per world unit: a step of the camera is a quarter of a square."""

START = Camera()

_LENS = Lens(832, 480, (500.0, 500.0, 416.0, 240.0))  # the pattern has one field of view, whatever is asked


@dataclass(frozen=True, slots=True)
class Walk:
    """All that a chunk changes: what is committed, and what a rollback returns to."""

    chunks: int = 0
    frames: int = 0
    camera: Camera = START


class PatternWorld:
    """`render` stages a chunk frame by frame; `commit` keeps it, `rollback` leaves no trace of it."""

    def __init__(self, scenery: Scenery, walk: Walk | None = None) -> None:
        self.scenery = scenery
        self.walk = walk or Walk()
        self._staged: Walk | None = None

    def render(self, tick: Tick) -> Iterator[NDArray[np.uint8]]:
        """RGB [H, W, 3] for each frame of the next chunk: 9 at first, then 12."""
        walk = self.walk
        motions = _motions(tick)
        path = follow(walk.camera, motions, _LENS)
        view = view_of(walk.camera)
        for index, (motion, camera) in enumerate(zip(motions, path.cameras, strict=True)):
            count = 1 if walk.chunks == 0 and index == 0 else 4
            target = view_of(camera)
            for part in range(1, count + 1):
                yield self._frame(_between(view, target, part / count), tick, motion)
            view = target
        frames = FIRST_CHUNK_FRAMES if walk.chunks == 0 else CHUNK_FRAMES
        self._staged = Walk(walk.chunks + 1, walk.frames + frames, path.cameras[-1])

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

    def _frame(self, view: View, tick: Tick, motion: Mapping[str, FrozenJson]) -> NDArray[np.uint8]:
        frame = self.scenery.draw(view, tick.prompt)
        draw_number(frame, tick.chunk_index)
        keys = motion.get("keys", ())
        assert isinstance(keys, tuple)
        draw_keys(frame, [key for key in keys if isinstance(key, str)])
        return frame


def view_of(camera: Camera) -> View:
    """Where a camera stands and looks; its height and roll are not shown."""
    x, _, z = translation_of(camera.pose)
    yaw = math.degrees(math.atan2(camera.pose[0][2], camera.pose[2][2]))
    return View(x * STEPS_PER_UNIT, z * STEPS_PER_UNIT, yaw, camera.pitch)


def _motions(tick: Tick) -> tuple[Mapping[str, FrozenJson], ...]:
    """One motion per latent frame; none where the tick has no camera."""
    motions = tick.conditioning.get("camera", (IDLE_MOTION,) * FRAMES_PER_BLOCK)
    assert isinstance(motions, tuple) and len(motions) == FRAMES_PER_BLOCK, f"motions expected: {motions}"
    return motions  # type: ignore[return-value]


def _between(start: View, end: View, part: float) -> View:
    turn = (end.yaw - start.yaw + 180) % 360 - 180
    return View(
        x=start.x + (end.x - start.x) * part,
        z=start.z + (end.z - start.z) * part,
        yaw=start.yaw + turn * part,
        pitch=start.pitch + (end.pitch - start.pitch) * part,
    )
