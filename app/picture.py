"""Whether encoded bytes are a picture that may be decoded: looked at by their header alone."""

from __future__ import annotations

from app.image_header import read_header
from app.refusals import InvalidField

FORMATS = ("png", "jpeg", "webp")


def checked_picture(data: bytes, field: str, max_side: int) -> bytes:
    """`data`, a picture of at most `max_side` pixels a side. Raises `InvalidField` for `field`."""
    header = read_header(data)
    if header is None:
        raise InvalidField(
            field, f"must be a {', '.join(FORMATS)} image; got {len(data)} bytes of something else"
        )
    if not 0 < header.width <= max_side or not 0 < header.height <= max_side:
        raise InvalidField(
            field,
            f"must be at most {max_side}x{max_side} pixels; "
            f"got a {header.format} of {header.width}x{header.height}",
        )
    return data
