"""What the pattern shows: a skyline all around, a chequered ground, or the client's own picture."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.api import OpenWorld
from engine.media.image import decode_image

VIEW_DEGREES: Final = 80.0  # across the picture's width


@dataclass(frozen=True, slots=True)
class View:
    """Where the visitor stands (steps) and looks (degrees; yaw to the right, pitch upwards)."""

    x: float = 0.0
    z: float = 0.0
    yaw: float = 0.0
    pitch: float = 0.0


class Scenery:
    """A panorama of 360 degrees and a ground, drawn from a seed; deterministic.

    `backdrop` (RGB [H, W, 3]) takes the skyline's place, repeated around the visitor.
    """

    def __init__(self, seed: int, width: int, height: int, backdrop: NDArray[np.uint8] | None = None) -> None:
        self.width = width
        self.height = height
        self._panorama = _skyline(seed, width, height) if backdrop is None else backdrop
        self._grounded = backdrop is None
        self._rays = (np.arange(width) + 0.5 - width / 2) / (width / 2) * np.tan(np.radians(VIEW_DEGREES / 2))

    def draw(self, view: View, prompt: str) -> NDArray[np.uint8]:
        """RGB [H, W, 3] as seen from `view`; a prompt tints it."""
        pixels_per_degree = self.width / VIEW_DEGREES
        columns = (np.arange(self.width) + round(view.yaw * pixels_per_degree)) % self._panorama.shape[1]
        tilt = round(view.pitch * pixels_per_degree)
        rows = np.clip(np.arange(self.height) - tilt, 0, self.height - 1)
        frame = self._panorama[rows][:, columns]
        if self._grounded:
            self._draw_ground(frame, view, self.height // 2 + tilt)
        return _tint(frame, prompt)

    def _draw_ground(self, frame: NDArray[np.uint8], view: View, horizon: int) -> None:
        top = min(max(horizon + 1, 0), self.height)
        depth = (self.height / 4 / (np.arange(top, self.height) - horizon))[:, None]  # [rows, 1]
        right = self._rays[None] * depth  # [rows, W]
        cos, sin = np.cos(np.radians(view.yaw)), np.sin(np.radians(view.yaw))
        x = view.x + cos * right + sin * depth
        z = view.z - sin * right + cos * depth
        dark = (np.floor(x) + np.floor(z)) % 2 == 0
        frame[top:] = np.where(dark[..., None], (70, 84, 60), (150, 160, 120))


def scenery_for(request: OpenWorld) -> Scenery:
    """The scene, or the client's image all around. Raises `WorldRefused` for a bad image."""
    if request.image is None:
        place = zlib.crc32((request.scene or "").encode())
        return Scenery(request.seed ^ place, request.width, request.height)
    backdrop = decode_image(request.image, request.width, request.height)
    return Scenery(request.seed, request.width, request.height, backdrop)


def _skyline(seed: int, width: int, height: int) -> NDArray[np.uint8]:
    """RGB [H, W * 360 / 80, 3]: a sky, and towers whose colours and heights come from the seed."""
    random = np.random.default_rng(seed)
    around = round(width * 360 / VIEW_DEGREES)
    sky = np.linspace((90, 130, 200), (205, 220, 235), height // 2)[:, None]
    panorama = np.empty((height, around, 3), np.uint8)
    panorama[: height // 2] = sky
    panorama[height // 2 :] = (110, 120, 90)
    towers = 36
    for left in range(towers):
        start, end = around * left // towers, around * (left + 1) // towers
        tall = int(random.integers(height // 16, height // 3))
        inset = (end - start) // 4
        panorama[height // 2 - tall : height // 2, start + inset : end] = random.integers(30, 226, 3)
    return panorama


def _tint(frame: NDArray[np.uint8], prompt: str) -> NDArray[np.uint8]:
    tint = np.frombuffer(hashlib.sha256(prompt.encode()).digest()[:3], np.uint8)
    return ((frame.astype(np.uint16) * 3 + tint) // 4).astype(np.uint8)
