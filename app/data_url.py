"""The first frame that a client brings in its message: a data URL."""

from __future__ import annotations

import binascii
import re

from app.picture import FORMATS, checked_picture
from app.refusals import InvalidField, shortened

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
            f"got {shortened(url[:200])}",
        )
    try:
        data = binascii.a2b_base64(url[prefix.end() :].encode("ascii", "replace"), strict_mode=True)
    except binascii.Error as error:
        raise InvalidField(field, f"must be valid base64 after the comma: {error}") from None
    return checked_picture(data, field, max_side)
