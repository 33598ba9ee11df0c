"""ISO base media file format (ISO/IEC 14496-12): the boxes of a fragmented file with one video track."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

TRACK: Final = 1
SYNC: Final = 0x0200_0000  # sample_depends_on = 2: an I picture
DIFFERENCE: Final = 0x0101_0000  # sample_depends_on = 1, sample_is_non_sync_sample

_MATRIX: Final = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x4000_0000)  # unity


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box of concatenated parts."""
    body = b"".join(parts)
    return struct.pack(">I4s", len(body) + 8, kind) + body


def full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    """A box with version and flags."""
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def ftyp() -> bytes:
    """`iso5` brings `default-base-is-moof`."""
    return box(b"ftyp", b"iso5", struct.pack(">I", 512), b"iso5", b"iso6", b"avc1", b"mp41")


def moov(width: int, height: int, timescale: int, sample_entry: bytes) -> bytes:
    """A movie with one video track whose samples are all in fragments; sizes in pixels."""
    mvhd = full_box(
        b"mvhd",
        0,
        0,
        struct.pack(">IIIIIH10x", 0, 0, timescale, 0, 0x10000, 0x100),
        _MATRIX,
        struct.pack(">24xI", TRACK + 1),
    )
    trex = full_box(b"trex", 0, 0, struct.pack(">IIIII", TRACK, 1, 0, 0, 0))
    return box(b"moov", mvhd, _trak(width, height, timescale, sample_entry), box(b"mvex", trex))


def avc1(width: int, height: int, sps: bytes, pps: bytes) -> bytes:
    """The sample entry of H.264 (ISO/IEC 14496-15): parameter sets here, lengths before NALs."""
    visual = struct.pack(
        ">6xH16xHHII4xH32xHh", 1, width, height, 72 << 16, 72 << 16, 1, 24, -1
    )  # 72 dpi, 24 bits per pixel
    record = struct.pack(">B3sBB", 1, sps[1:4], 0xFC | 3, 0xE0 | 1)
    sets = struct.pack(">H", len(sps)) + sps + struct.pack(">BH", 1, len(pps)) + pps
    return box(b"avc1", visual, box(b"avcC", record, sets))


def mp4v_jpeg(width: int, height: int) -> bytes:
    """The sample entry of JPEG pictures (ISO/IEC 14496-1: object type 0x6C, a visual stream)."""
    visual = struct.pack(">6xH16xHHII4xH32xHh", 1, width, height, 72 << 16, 72 << 16, 1, 24, -1)
    decoder = struct.pack(">BBBB3xII", 4, 13, 0x6C, 4 << 2 | 1, 0, 0)
    stream = struct.pack(">BBHB", 3, 3 + len(decoder) + 3, TRACK, 0) + decoder + b"\6\1\2"
    return box(b"mp4v", visual, full_box(b"esds", 0, 0, stream))


def moof(
    sequence: int, decode_time: int, duration: int, sizes: Sequence[int], others: int = DIFFERENCE
) -> bytes:
    """A fragment's head: the first sample is a key frame, the others are what `others` says, each lasts
    `duration`; an `mdat` must follow.
    """
    mfhd = full_box(b"mfhd", 0, 0, struct.pack(">I", sequence))
    tfhd = full_box(b"tfhd", 0, 0x02_0028, struct.pack(">III", TRACK, duration, others))
    tfdt = full_box(b"tfdt", 1, 0, struct.pack(">Q", decode_time))
    samples = struct.pack(f">{len(sizes)}I", *sizes)

    def head(data_offset: int) -> bytes:
        trun = full_box(b"trun", 0, 0x205, struct.pack(">IiI", len(sizes), data_offset, SYNC), samples)
        return box(b"moof", mfhd, box(b"traf", tfhd, tfdt, trun))

    return head(len(head(0)) + 8)  # from the start of the moof to behind the mdat's header


def _trak(width: int, height: int, timescale: int, sample_entry: bytes) -> bytes:
    tkhd = full_box(
        b"tkhd",
        0,
        3,  # enabled, in movie
        struct.pack(">III4xI8xHHH2x", 0, 0, TRACK, 0, 0, 0, 0),
        _MATRIX,
        struct.pack(">II", width << 16, height << 16),
    )
    mdhd = full_box(b"mdhd", 0, 0, struct.pack(">IIIIHH", 0, 0, timescale, 0, 0x55C4, 0))  # language: und
    hdlr = full_box(b"hdlr", 0, 0, struct.pack(">I4s12x", 0, b"vide"), b"video\0")
    return box(b"trak", tkhd, box(b"mdia", mdhd, hdlr, _minf(sample_entry)))


def _minf(sample_entry: bytes) -> bytes:
    vmhd = full_box(b"vmhd", 0, 1, bytes(8))
    here = full_box(b"url ", 0, 1)  # the media is in this very file
    dinf = box(b"dinf", full_box(b"dref", 0, 0, struct.pack(">I", 1), here))
    stsd = full_box(b"stsd", 0, 0, struct.pack(">I", 1), sample_entry)
    empty = [full_box(kind, 0, 0, bytes(4)) for kind in (b"stts", b"stsc", b"stco")]
    stsz = full_box(b"stsz", 0, 0, bytes(8))
    return box(b"minf", vmhd, dinf, box(b"stbl", stsd, *empty, stsz))
