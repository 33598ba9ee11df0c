"""JPEG for one chunk: every frame a complete baseline picture (JFIF: BT.601, full range)."""

from __future__ import annotations

from io import BytesIO
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUALITY: Final = 88


def encode_jpeg(frames: NDArray[np.uint8]) -> tuple[bytes, ...]:
    """One JPEG per frame of RGB [F, H, W, 3]."""
    return tuple(_encode(frame) for frame in frames)


def _encode(frame: NDArray[np.uint8]) -> bytes:
    buffer = BytesIO()
    Image.fromarray(frame).save(buffer, "JPEG", quality=QUALITY, subsampling="4:2:0")
    return buffer.getvalue()
