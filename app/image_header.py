"""The format and size of an encoded image, read from its header: nothing is decoded or decompressed.

PNG: W3C PNG 3rd edition, section 11.2.1. JPEG: ITU-T T.81, annex B.2.2. WebP: RFC 9649, sections 2.5 to 2.7.
"""

from __future__ import annotations

from dataclasses import dataclass

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Format (`png`, `jpeg`, `webp`) and size in pixels."""

    format: str
    width: int
    height: int


def read_header(data: bytes) -> ImageHeader | None:
    """The header of `data`, or None where it is none of the three formats or is cut short."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _png(data: bytes) -> ImageHeader | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    return ImageHeader("png", int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))


def _jpeg(data: bytes) -> ImageHeader | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _JPEG_BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _JPEG_FRAMES:
            height, width = (
                int.from_bytes(data[at + 5 : at + 7], "big"),
                int.from_bytes(data[at + 7 : at + 9], "big"),
            )
            return ImageHeader("jpeg", width, height)
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp(data: bytes) -> ImageHeader | None:
    if len(data) < 30:
        return None
    if data[12:16] == b"VP8X":
        width, height = int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    elif data[12:16] == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif data[12:16] == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    else:
        return None
    return ImageHeader("webp", width, height)
