"""The first frame that a client brings: a data URL, checked by its header before anything is decoded."""

from __future__ import annotations

import binascii
import re

from app.image_header import read_header
from app.refusals import InvalidField, shortened

FORMATS = ("png", "jpeg", "webp")

_PREFIX = re.compile(
    r"data:image/([A-Za-z0-9.+-]{1,40})((?:;[A-Za-z0-9.+-]+=[A-Za-z0-9.+-]*){0,4});base64,",
    re.ASCII | re.IGNORECASE,
)


def image_bytes(url: str, field: str, max_side: int) -> bytes:
    """The encoded image in `url`, at most `max_side` pixels a side. Raises `InvalidField` for `field`."""
    prefix = _PREFIX.match(url)
    if prefix is None:
        raise InvalidField(
            field,
            f"must be a data URL (data:image/png;base64,...) of a {', '.join(FORMATS)} image; "
            f"web addresses are not fetched; got {shortened(url[:200])}",
        )
    try:
        data = binascii.a2b_base64(url[prefix.end() :].encode("ascii", "replace"), strict_mode=True)
    except binascii.Error as error:
        raise InvalidField(field, f"must be valid base64 after the comma: {error}") from None
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
