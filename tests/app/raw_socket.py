"""A connection whose bytes a test writes itself."""

import asyncio
import struct
from typing import Any

from app.paths import SOCKET_PATH

UPGRADE = (
    f"GET {SOCKET_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()

MASK = bytes(4)  # of zeros: the payload stands as it is


def port_of(server: Any) -> int:
    return int(server.url.rsplit(":", 1)[1])


async def dial(server: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port_of(server))


async def cut(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server ends the connection."""
    received = b""
    try:
        while piece := await reader.read(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


async def shaken(server: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A socket whose frames the test writes itself."""
    reader, writer = await dial(server)
    writer.write(UPGRADE)
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(opcode: int, payload: bytes, *, last: bool = True, length: int | None = None) -> bytes:
    """A client's frame, which may lie about its length."""
    head = bytes([(0x80 if last else 0) | opcode, 0xFF])
    return head + struct.pack("!Q", len(payload) if length is None else length) + MASK + payload


def close_code(received: bytes) -> int:
    """Of the close frame at the end."""
    at = received.rindex(b"\x88")
    return int.from_bytes(received[at + 2 : at + 4], "big")
