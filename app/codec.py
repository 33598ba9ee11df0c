"""The codec string of a stream before its first chunk, so that `video.start` can carry it.

The encoder takes the lowest level of H.264 that holds the picture's size and rate (ITU-T H.264, table A-1).
"""

from __future__ import annotations

from math import ceil

LEVELS = (  # level_idc, macroblocks per second, macroblocks per frame
    (10, 1_485, 99),
    (11, 3_000, 396),
    (12, 6_000, 396),
    (13, 11_880, 396),
    (21, 19_800, 792),
    (22, 20_250, 1_620),
    (30, 40_500, 1_620),
    (31, 108_000, 3_600),
    (32, 216_000, 5_120),
    (40, 245_760, 8_192),
    (42, 522_240, 8_704),
    (50, 589_824, 22_080),
    (51, 983_040, 36_864),
    (52, 2_073_600, 36_864),
)


def codec_name(kind: str, width: int, height: int, fps: int) -> str:
    """RFC 6381, e.g. `avc1.42c00a`; `mjpeg` for JPEG."""
    if kind == "jpeg":
        return "mjpeg"
    columns, rows = ceil(width / 16), ceil(height / 16)
    blocks = columns * rows
    for level, per_second, per_frame in LEVELS:
        longest = 8 * per_frame  # of a side, squared
        if blocks <= per_frame and blocks * fps <= per_second and max(columns, rows) ** 2 <= longest:
            return f"avc1.42c0{level:02x}"
    return "avc1.42c034"
