"""What a world is opened with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.api import WorldRefused
from engine.camera.algebra import IDENTITY, Pose

SIZE_MULTIPLE = 16  # 8 pixels per latent pixel, 2 latent pixels per patch
MAX_PIXELS = 480 * 832


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """`world` names the session instance; `image` is its first frame, RGB [H, W, 3], in the size of the
    video.

    `origin` is where the session's first frame stands in the coordinates of the place that it shows (the
    identity where nothing is known of one). Raises `WorldRefused`.
    """

    world: str
    image: NDArray[np.uint8]
    prompt: str
    seed: int
    origin: Pose = IDENTITY
    flow_shift: float | None = None

    def __post_init__(self) -> None:
        if self.image.ndim != 3 or self.image.shape[2] != 3 or self.image.dtype != np.uint8:
            came = f"{self.image.dtype} {list(self.image.shape)}"
            raise WorldRefused("image", f"image: got {came}, expected uint8 [height, width, 3]")
        for name, size in (("width", self.width), ("height", self.height)):
            if size < SIZE_MULTIPLE or size % SIZE_MULTIPLE:
                raise WorldRefused(name, f"{name}: got {size}, expected a multiple of {SIZE_MULTIPLE}")
        if self.width * self.height > MAX_PIXELS:
            message = f"width, height: got {self.width}x{self.height}, expected at most {MAX_PIXELS} pixels"
            raise WorldRefused("width", message)

    @property
    def width(self) -> int:
        """Pixels."""
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        """Pixels."""
        return int(self.image.shape[0])
