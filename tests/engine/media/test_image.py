"""A client's picture becomes a first frame, or is refused with a reason."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from engine.api import WorldRefused
from engine.media.image import decode_image


def encoded(image: Image.Image, format: str = "PNG", **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def halves(width: int = 64, height: int = 32) -> Image.Image:
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = 255
    pixels[:, width // 2 :, 2] = 255
    return Image.fromarray(pixels)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds next to nothing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(64))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_the_allowed_formats_become_rgb_of_the_asked_size(format: str) -> None:
    frame = decode_image(encoded(halves(), format), 96, 48)
    assert frame.shape == (48, 96, 3) and frame.dtype == np.uint8
    assert frame[24, 10, 0] > 230 and frame[24, 85, 2] > 230


def test_another_aspect_ratio_is_cropped_around_the_centre() -> None:
    frame = decode_image(encoded(halves(320, 32)), 32, 32)
    assert frame[16, 2, 0] > 230 and frame[16, 29, 2] > 230


def test_exif_orientation_is_honoured() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees: the left side comes to the top
    frame = decode_image(encoded(halves(), "JPEG", exif=exif), 32, 64)
    assert frame[5, 16, 0] > 200 and frame[58, 16, 2] > 200


def test_metadata_that_makes_no_sense_is_no_reason_to_refuse_a_picture() -> None:
    width_as_text = struct.pack(">HHI4s", 0x0100, 2, 4, b"abc")
    orientation = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x02" + width_as_text + orientation + bytes(4)
    frame = decode_image(encoded(halves(), "JPEG", exif=exif), 32, 64)
    assert frame[5, 16, 0] > 200 and frame[58, 16, 2] > 200


def test_sixteen_bits_of_grey_keep_their_shades() -> None:
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16)[None].repeat(32, axis=0)
    rgb = decode_image(encoded(Image.fromarray(ramp)), 64, 32)
    expected = (ramp >> 8).astype(np.int16)[..., None]
    assert np.abs(rgb.astype(np.int16) - expected).max() <= 1


def test_transparent_pixels_lie_on_black() -> None:
    image = Image.new("RGBA", (32, 32), (255, 255, 255, 0))
    assert decode_image(encoded(image), 32, 32).max() == 0


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "I;16", "CMYK"])
def test_other_modes_are_converted(mode: str) -> None:
    image = halves().convert(mode) if mode != "I;16" else Image.new("I;16", (32, 32), 40000)
    format = "JPEG" if mode == "CMYK" else "PNG"
    assert decode_image(encoded(image, format), 32, 16).shape == (16, 32, 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a readable PNG, JPEG or WebP"),
        (b"hello", "not a readable PNG, JPEG or WebP"),
        (encoded(halves(), "GIF"), "not a readable PNG, JPEG or WebP"),
        (encoded(halves())[:60], "can't be decoded"),
        (encoded(halves(), "JPEG")[:400], "can't be decoded"),
        (png_header(5000, 4096), "5000x4096 pixels; at most 16777216"),
        (png_header(60000, 60000), "far too many pixels; at most 16777216"),
    ],
    ids=["empty", "text", "gif", "cut png", "cut jpeg", "large", "bomb"],
)
def test_what_is_no_picture_is_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(WorldRefused, match=reason) as refusal:
        decode_image(data, 32, 32)
    assert refusal.value.field == "image"
