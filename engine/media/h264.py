"""H.264 for one chunk: baseline, yuv420p, no B-frames, one closed group of pictures."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from numpy.typing import NDArray

PRESET: Final = "veryfast"
CRF: Final = 18  # small pictures are shown enlarged, so artefacts are too

_SPS: Final = 7
_SEI: Final = 6
_DELIMITER: Final = 9
_BT709: Final = 1  # ITU-T H.273: matrix, primaries and transfer alike


def encode_h264(frames: NDArray[np.uint8], fps: int) -> tuple[bytes, ...]:
    """One Annex B access unit per frame, SPS and PPS on the first.

    `frames` is RGB [F, H, W, 3], full range; H and W are even. The picture is coded as BT.709, limited
    range, and says so in its SPS. A fresh encoder on one thread makes the bytes a function of the arguments.
    """
    context = _context(frames, fps)
    scaler = VideoReformatter()
    packets = []
    for index, frame in enumerate(frames):
        packets += context.encode(_to_yuv(scaler, frame, index))
    packets += context.encode(None)
    units = tuple(_strip(bytes(packet)) for packet in packets)
    assert len(units) == len(frames), f"{len(frames)} frames gave {len(units)} access units"
    return units


def codec_string(unit: bytes) -> str:
    """The RFC 6381 name, e.g. `avc1.42c01e`, from an access unit that carries its SPS."""
    sps = next(nal for nal in nal_units(unit) if nal[0] & 31 == _SPS)
    return f"avc1.{sps[1:4].hex()}"


def nal_units(unit: bytes) -> Iterator[bytes]:
    """The NAL units of an Annex B byte string, without start codes."""
    for part in unit.split(b"\0\0\1"):
        nal = part.rstrip(b"\0")  # trailing zeros belong to the next start code; a NAL unit never ends in one
        if nal:
            yield nal


def _context(frames: NDArray[np.uint8], fps: int) -> av.VideoCodecContext:
    count, height, width, channels = frames.shape
    assert channels == 3 and count > 0, f"RGB frames [F, H, W, 3] expected, got {frames.shape}"
    assert height % 2 == 0 and width % 2 == 0, f"even sizes expected, got {width}x{height}"
    context = av.CodecContext.create("libx264", "w")
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.time_base, context.framerate = Fraction(1, fps), Fraction(fps)
    context.thread_count = 1
    context.gop_size, context.max_b_frames = count, 0
    context.profile = "Baseline"
    context.color_range = ColorRange.MPEG
    context.colorspace = context.color_primaries = context.color_trc = _BT709
    context.options = {"preset": PRESET, "tune": "zerolatency", "crf": str(CRF), "sc_threshold": "0"}
    return context


def _to_yuv(scaler: VideoReformatter, frame: NDArray[np.uint8], index: int) -> av.VideoFrame:
    yuv = scaler.reformat(
        av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24"),
        format="yuv420p",
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
        interpolation="AREA",
    )
    yuv.pts = index
    return yuv


def _strip(unit: bytes) -> bytes:
    """Drop what a player has no use for: x264's 600-byte signature (SEI) and delimiters."""
    kept = (nal for nal in nal_units(unit) if nal[0] & 31 not in (_SEI, _DELIMITER))
    return b"".join(b"\0\0\0\1" + nal for nal in kept)
