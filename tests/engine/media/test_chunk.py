"""A chunk says what it holds."""

from __future__ import annotations

import hashlib
from io import BytesIO

import numpy as np
from PIL import Image

from engine.media.chunk import encode_chunk

FRAMES = np.random.default_rng(0).integers(0, 256, (9, 32, 48, 3)).astype(np.uint8)


def test_the_digest_is_that_of_the_raw_frames() -> None:
    digest = hashlib.sha256(FRAMES.tobytes()).hexdigest()
    assert encode_chunk(FRAMES, "h264", 16, 0).digest == digest
    assert encode_chunk(FRAMES, "jpeg", 16, 0).digest == digest
    assert encode_chunk(FRAMES[::-1], "jpeg", 16, 0).digest != digest


def test_a_chunk_carries_its_geometry_and_place() -> None:
    chunk = encode_chunk(FRAMES, "h264", 24, 21)
    assert (chunk.kind, chunk.width, chunk.height, chunk.fps, chunk.first_frame) == ("h264", 48, 32, 24, 21)
    assert chunk.codec.startswith("avc1.42") and len(chunk.frames) == 9


def test_a_jpeg_chunk_is_one_picture_per_frame() -> None:
    smooth = np.broadcast_to(np.arange(48, dtype=np.uint8)[None, None, :, None] * 4, (9, 32, 48, 3))
    chunk = encode_chunk(smooth, "jpeg", 16, 0)
    assert chunk.codec == "mjpeg" and len(chunk.frames) == 9
    for picture in chunk.frames:
        with Image.open(BytesIO(picture)) as image:
            assert image.format == "JPEG"
            assert np.abs(np.asarray(image).astype(int) - smooth[0]).max() <= 6


def test_equal_frames_give_equal_chunks() -> None:
    for kind in ("h264", "jpeg"):
        assert encode_chunk(FRAMES, kind, 16, 9) == encode_chunk(FRAMES.copy(), kind, 16, 9)
