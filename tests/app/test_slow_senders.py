"""What a client owes and does not send, or sends drop by drop: it is cut in time, and nobody else is."""

import asyncio
import json
import socket as sockets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect

from app.paths import SOCKET_PATH
from tests.app.raw_socket import close_code, cut, dial, frame, port_of, shaken

Start = Callable[..., Awaitable[Any]]
PROMPT = {"prompt": "a meadow"}


@pytest.mark.parametrize("sent", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: "])
async def test_a_request_whose_head_does_not_come_is_cut(start_server: Start, sent: bytes) -> None:
    server = await start_server(start_timeout_s=0.1)
    reader, writer = await dial(server)
    writer.write(sent)
    assert await cut(reader) == b""
    writer.close()
    await server.until(lambda: not server.server.server_state.connections)


async def test_a_trickled_second_request_is_cut_too(start_server: Start) -> None:
    server = await start_server(start_timeout_s=0.1)
    reader, writer = await dial(server)
    writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"HTTP/1.1 200" in await reader.readuntil(b"}")
    writer.write(b"GET /hea")
    assert await cut(reader) == b""
    writer.close()


async def test_a_body_that_does_not_come_is_answered_with_408(start_server: Start) -> None:
    server = await start_server(start_timeout_s=0.1)
    reader, writer = await dial(server)
    writer.write(
        b"POST /v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: 99\r\n\r\n{"
    )
    answer = await reader.readuntil(b"}")
    assert b"HTTP/1.1 408" in answer and b"start_timeout" in answer
    writer.write(b" ")  # and whoever trickles on is cut
    await cut(reader)
    writer.close()


async def test_a_start_in_pieces_that_do_not_come_ends_with_4408(start_server: Start) -> None:
    server = await start_server(start_timeout_s=0.1, last_word_timeout_s=0.1)
    reader, writer = await shaken(server)
    writer.write(frame(0x1, b'{"type": ', last=False))
    assert close_code(await cut(reader)) == 4408
    writer.close()


async def test_a_socket_on_a_connection_that_asked_before_lives_on(start_server: Start) -> None:
    server = await start_server(start_timeout_s=0.2)
    raw = sockets.create_connection(("127.0.0.1", port_of(server)))
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    answer = b""
    while b"healthy" not in answer:
        answer += await loop.sock_recv(raw, 4096)
    async with connect("ws://127.0.0.1" + SOCKET_PATH, sock=raw, proxy=None, compression=None) as socket:
        await socket.send(json.dumps({"type": "session.start", **PROMPT}))
        began = loop.time()
        while loop.time() < began + 0.5:  # longer than a request's head may take
            await socket.recv()
