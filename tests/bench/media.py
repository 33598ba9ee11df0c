"""Encoding and packaging one chunk of 12 frames, by picture size; a fresh PyAV muxer beside ours."""

from __future__ import annotations

import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

from app.packaging import Packager
from engine.api import EncodedChunk
from engine.media.chunk import encode_chunk

ROUNDS = 15
SIZES = ((96, 64), (160, 96), (832, 480))
MUXER = {
    "movflags": "frag_custom+empty_moov+default_base_moof+frag_discont",
    "avoid_negative_ts": "make_non_negative",
    "flush_packets": "1",
}


def walk(width: int, height: int) -> NDArray[np.uint8]:
    """Twelve frames of a picture that moves, with some noise."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:height, 0:width]
    frames = []
    for t in range(12):
        smooth = np.stack(
            [128 + 90 * np.sin((x + 3 * t) / 17), 128 + 90 * np.cos(y / 11), 60 + x * 120 / width], -1
        )
        frames.append((smooth + random.normal(0, 3, smooth.shape)).clip(0, 255))
    return np.stack(frames).astype(np.uint8)


def median_ms(*actions: Callable[[], object]) -> list[float]:
    """Both sides alternate; the first round is discarded."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(ROUNDS + 1):
        for action, taken in zip(actions, times, strict=True):
            began = time.perf_counter()
            action()
            taken.append((time.perf_counter() - began) * 1000)
    return [round(statistics.median(taken[1:]), 3) for taken in times]


def mux_with_pyav(media: EncodedChunk) -> bytes:
    """A fresh muxer, as ffmpeg would have it."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4", options={**MUXER, "fragment_index": "2"}) as container:
        stream = container.add_stream("libx264", rate=media.fps)
        stream.width, stream.height, stream.pix_fmt = media.width, media.height, "yuv420p"
        rate = Fraction(1, media.fps)
        for index, unit in enumerate(media.frames):
            packet = av.Packet(unit)
            packet.stream, packet.time_base = stream, rate
            packet.pts = packet.dts = media.first_frame + index
            packet.is_keyframe = index == 0
            container.mux(packet)
    return out.getvalue()


def main() -> None:
    """One JSON line per size."""
    for width, height in SIZES:
        frames = walk(width, height)
        media = encode_chunk(frames, "h264", 16, 9)
        h264, jpeg = median_ms(
            lambda frames=frames: encode_chunk(frames, "h264", 16, 9),
            lambda frames=frames: encode_chunk(frames, "jpeg", 16, 9),
        )
        m4s, pyav = median_ms(
            lambda media=media: Packager("m4s").package(media), lambda media=media: mux_with_pyav(media)
        )
        figures = {
            "bench": "media",
            "size": f"{width}x{height}",
            "h264_ms": h264,
            "h264_bytes": sum(map(len, media.frames)),
            "jpeg_ms": jpeg,
            "m4s_ms": m4s,
            "pyav_mux_ms": pyav,
        }
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
