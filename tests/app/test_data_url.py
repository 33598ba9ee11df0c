import base64
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from app.data_url import image_bytes
from app.image_header import read_header
from app.refusals import InvalidField


def encoded(kind: str, size: tuple[int, int], **options: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (10, 200, 30)).save(out, kind, **options)
    return out.getvalue()


def url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("kind", "options"),
    [("png", {}), ("jpeg", {}), ("jpeg", {"progressive": True}), ("webp", {}), ("webp", {"lossless": True})],
)
def test_a_header_tells_format_and_size(kind: str, options: dict[str, object]) -> None:
    header = read_header(encoded(kind, (37, 113), **options))
    assert header is not None
    assert (header.format, header.width, header.height) == (kind, 37, 113)


def test_an_extended_webp_tells_its_size() -> None:
    header = read_header(encoded("webp", (37, 113), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"))
    assert header is not None
    assert (header.width, header.height) == (37, 113)


@given(st.sampled_from(["png", "jpeg", "webp"]), st.integers(0, 200))
def test_a_header_cut_short_is_no_header_or_the_right_one(kind: str, length: int) -> None:
    header = read_header(encoded(kind, (37, 113))[:length])
    assert header is None or (header.width, header.height) == (37, 113)


@given(st.binary(max_size=64))
def test_no_bytes_upset_the_header_reader(data: bytes) -> None:
    for magic in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP"):
        read_header(magic + data)


def test_scheme_and_media_type_may_be_in_capitals() -> None:
    data = encoded("png", (3, 2))
    text = url(data).replace("data:image/png", "DATA:IMAGE/PNG")
    assert image_bytes(text, "image", 64) == data


def test_a_data_url_gives_its_bytes() -> None:
    data = encoded("png", (64, 96))
    assert image_bytes(url(data), "image_url", 4096) == data


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("https://example.org/a.png", "must be a data URL"),
        ("data:text/plain;base64,AAAA", "must be a data URL"),
        ("data:image/png;base64,@@@@", "valid base64"),
        ("data:image/png;base64,AAA", "valid base64"),
        ("data:image/png;base64,é", "valid base64"),
        (
            "data:image/gif;base64," + base64.b64encode(b"GIF89a" + bytes(20)).decode(),
            "must be a png, jpeg, webp",
        ),
        (url(encoded("png", (65, 8))), "got a png of 65x8"),
        (url(encoded("png", (8, 65))), "at most 64x64"),
    ],
)
def test_what_is_no_image_or_too_large_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(InvalidField, match=says) as refused:
        image_bytes(text, "image_reference.image_url", 64)
    assert refused.value.field == "image_reference.image_url"


def test_a_small_file_of_a_huge_picture_is_refused_without_decoding_it() -> None:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (2**31 - 1).to_bytes(4, "big") * 2
    with pytest.raises(InvalidField, match="2147483647x2147483647"):
        image_bytes(url(header), "image_url", 4096)
