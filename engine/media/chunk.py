"""The frames of one chunk, encoded."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.api import EncodedChunk
from engine.media.h264 import codec_string, encode_h264
from engine.media.jpeg import encode_jpeg


def encode_chunk(
    frames: NDArray[np.uint8], kind: Literal["h264", "jpeg"], fps: int, first_frame: int
) -> EncodedChunk:
    """Encode RGB frames [F, H, W, 3]; equal arguments give equal bytes, whatever was encoded before.

    `first_frame` is the index of the chunk's first frame since the epoch began.
    """
    frames = np.ascontiguousarray(frames)
    units = encode_h264(frames, fps) if kind == "h264" else encode_jpeg(frames)
    return EncodedChunk(
        kind=kind,
        codec=codec_string(units[0]) if kind == "h264" else "mjpeg",
        width=frames.shape[2],
        height=frames.shape[1],
        fps=fps,
        first_frame=first_frame,
        frames=units,
        digest=hashlib.sha256(frames.data).hexdigest(),
    )
