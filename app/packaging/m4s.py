"""Fragmented MP4: an init segment, and one fragment per chunk that holds every one of its frames.

Written here rather than by FFmpeg's muxer: a long-lived one holds frames back, a fresh one per chunk takes
seven times as long (`tests/bench/media.py`), and the server process needs no FFmpeg.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from app.packaging.boxes import avc1, box, ftyp, moof, moov
from engine.api import EncodedChunk

TICKS_PER_FRAME: Final = 1000

_SPS, _PPS = 7, 8


def init_segment(media: EncodedChunk) -> bytes:
    """`ftyp` and `moov`; the same for every chunk of a session, so a stream can be joined at any of them."""
    sets = {nal[0] & 31: nal for nal in _nal_units(media.frames[0])}
    entry = avc1(media.width, media.height, sps=sets[_SPS], pps=sets[_PPS])
    return ftyp() + moov(media.width, media.height, media.fps * TICKS_PER_FRAME, entry)


def fragment(media: EncodedChunk, sequence: int, first_frame: int) -> bytes:
    """`moof` and `mdat` of one chunk: the `sequence`th fragment of its stream, shown at `first_frame`."""
    samples = [_sample(unit) for unit in media.frames]
    sizes = [len(sample) for sample in samples]
    head = moof(sequence, first_frame * TICKS_PER_FRAME, TICKS_PER_FRAME, sizes)
    return head + box(b"mdat", *samples)


def _sample(unit: bytes) -> bytes:
    """Annex B to lengths; parameter sets stay in the init segment."""
    kept = (nal for nal in _nal_units(unit) if nal[0] & 31 not in (_SPS, _PPS))
    return b"".join(struct.pack(">I", len(nal)) + nal for nal in kept)


def _nal_units(unit: bytes) -> Iterator[bytes]:
    for part in unit.split(b"\0\0\1"):
        nal = part.rstrip(b"\0")
        if nal:
            yield nal
