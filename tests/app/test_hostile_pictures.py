"""Pictures that no honest client sends: refused by name, or harmless."""

import base64
import struct
import zlib
from typing import Any

import pytest

PROMPT = {"prompt": "a meadow"}


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))


def ihdr(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0))


def png(*chunks: bytes) -> str:
    data = b"\x89PNG\r\n\x1a\n" + ihdr(96, 64) + b"".join(chunks) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


ZEROS = zlib.compress(bytes(50 * 2**20), 9)


ROWS = zlib.compress(bytes(64 * (1 + 3 * 96)))


BAD_PICTURES = {
    "second header": png(ihdr(30_000, 30_000), chunk(b"IDAT", ROWS)),
    "second header just below Pillow's own limit": png(ihdr(9_000, 9_000), chunk(b"IDAT", ROWS)),
    "no data": png(),
    "cut data": png(chunk(b"IDAT", ROWS[:10])),
    "data that is no zlib": png(chunk(b"IDAT", b"\0" * 99)),
    "compressed text": png(chunk(b"zTXt", b"Comment\0\0" + ZEROS), chunk(b"IDAT", ROWS)),
    "compressed profile": png(chunk(b"iCCP", b"p\0\0" + ZEROS), chunk(b"IDAT", ROWS)),
    "short chunk": png(chunk(b"PLTE", b"\0"), chunk(b"tRNS", b"\0"), chunk(b"IDAT", ROWS[:4])),
}


@pytest.mark.parametrize("name", BAD_PICTURES)
async def test_a_bad_picture_is_refused_by_name_or_harmless(server: Any, name: str) -> None:
    body = {**PROMPT, "image_reference": {"image_url": BAD_PICTURES[name]}}
    answer = await server.client.http.post("/v1/sessions", json=body)
    if answer.status_code == 201:  # what Pillow passes over
        assert name.startswith("compressed")
        return
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] in ("image", "image_reference", "image_reference.image_url")
    await server.until(lambda: server.edge.engine.status().worlds == 0)


async def test_more_pixels_than_the_header_says_are_never_decompressed(server: Any) -> None:
    bomb = png(chunk(b"IDAT", ZEROS))
    made = await server.client.create(**PROMPT, image_reference={"image_url": bomb}, mode="stepped")
    assert (await server.client.run_chunk(made["session_id"])).data
