"""What no honest client does, against a real server: it is refused, and nobody else notices."""

import asyncio
import base64
import json
import random
import socket as sockets
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from app.client import ServerError
from app.paths import SOCKET_PATH
from app.strict_json import MAX_VALUES
from engine.pattern.engine import PatternEngine

Start = Callable[..., Awaitable[Any]]
PROMPT = {"prompt": "a meadow"}
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
    writer.write(
        f"GET {SOCKET_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
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


# Slowness


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


async def test_pings_of_a_peer_that_reads_nothing_do_not_pile_up(start_server: Start) -> None:
    server = await start_server()
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port_of(server)))
    reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
    writer.write(
        f"GET {SOCKET_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    (connection,) = server.server.server_state.connections
    ping = bytes([0x89, 0xFD]) + MASK + bytes(125)
    highest = 0
    for _ in range(60):
        writer.write(ping * 1000)
        await writer.drain()
        await asyncio.sleep(0)
        highest = max(highest, connection.transport.get_write_buffer_size())
    assert highest < 2**20
    writer.transport.abort()
    await server.until(lambda: not server.server.server_state.connections)


# Size


async def test_a_frame_that_says_it_is_endless_is_refused_at_its_head(start_server: Start) -> None:
    server = await start_server()
    reader, writer = await shaken(server)
    writer.write(frame(0x1, b"", length=2**62))
    assert close_code(await cut(reader)) == 1009
    writer.close()


async def test_a_message_in_endless_empty_pieces_is_refused(start_server: Start) -> None:
    server = await start_server()
    reader, writer = await shaken(server)
    writer.write(frame(0x1, b"", last=False) + frame(0x0, b"", last=False) * 5000)
    assert close_code(await cut(reader)) == 1009
    writer.close()


SCRIPT = '{"extra_params": {"camera_action_script": [%s[]]}, "prompt": "a", "type": "session.start"}'


async def test_millions_of_values_are_refused_before_they_are_made(start_server: Start) -> None:
    server = await start_server()
    many = SCRIPT % ("[]," * 2_000_000)
    async with server.client.socket() as stream:
        await stream.socket.send(many)
        with pytest.raises(ServerError, match="65536 values") as refused:
            await stream.receive()
        assert refused.value.close_code == 1009
    answer = await server.client.http.post(
        "/v1/sessions", content=many, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "message_too_large")


async def test_a_stream_goes_on_after_an_interaction_of_too_many_values(server: Any) -> None:
    async with server.client.stream(**PROMPT) as stream:
        await stream.socket.send('{"type": "session.interaction", "x": [' + "0," * MAX_VALUES)
        assert (await stream.message("session.warning"))["code"] == "message_too_large"
        assert (await stream.chunk()).data


BAD_BODIES = [
    b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
    b'{"prompt": "a", "seed": ' + b"9" * 30 + b"}",
    b'{"prompt": "a", "seed": 1e400}',
    b'{"prompt": "a", "seed": NaN}',
    b'{"prompt": "a", "extra_params": ' + b"[" * 40 + b"]" * 40 + b"}",
    b'{"prompt": ' + b"[" * 50_000,
    b'{"prompt": "\xff\xfe"}',
    b'{"prompt": "\\ud800"}',
    b'{"prompt": "a", "\\ud800": 1}',
    b'{"prompt": "a", "prompt": "b"}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_what_json_should_not_hold_is_refused_on_both_ways_in(start_server: Start, body: bytes) -> None:
    server = await start_server(last_word_timeout_s=0.1)
    answer = await server.client.http.post(
        "/v1/sessions", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["code"] and answer.json()["detail"]
    reader, writer = await shaken(server)
    writer.write(frame(0x1, body.replace(b"{", b'{"type": "session.start", ', 1)))
    assert close_code(await cut(reader)) in (1007, 1008)
    writer.close()
    assert not server.edge.manager.awake_count


# Pictures


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


# Names

NAMES = [
    "../x",
    "..",
    ".",
    "a/b",
    "a\\b",
    "",
    " ",
    "a\0",
    "a\n",
    "-x",
    "é",
    "x" * 65,
    "%2e%2e",
    "a;b",
    "~",
    "$HOME",
]


@pytest.mark.parametrize("name", NAMES)
async def test_an_id_that_is_no_plain_name_is_refused(server: Any, name: str) -> None:
    with pytest.raises(ServerError) as refused:
        await server.client.create(**PROMPT, session_id=name)
    assert (refused.value.status, refused.value.field) == (422, "session_id")
    async with server.client.socket() as stream:
        with pytest.raises(ServerError) as refused:
            await stream.start(**PROMPT, session_id=name)
    assert (refused.value.close_code, refused.value.field) == (1008, "session_id")


@pytest.mark.parametrize("name", ["../harbour", "/etc/passwd", "..", "harbour\0", "x" * 129, "", "HARBOUR"])
async def test_a_scene_that_is_not_listed_is_refused(server: Any, name: str) -> None:
    with pytest.raises(ServerError) as refused:
        await server.client.create(**PROMPT, scene=name)
    assert (refused.value.status, refused.value.field) == (422, "scene")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions/..%2f..%2fetc%2fpasswd",
        "/v1/sessions/%2e%2e",
        "/v1/sessions/../../etc/passwd",
        "/v1/sessions/a%00b",
        "/v1/sessions/" + "x" * 5000,
        "/v1/sessions/%ff%fe",
        "/v1/sessions/..%5c..%5cx",
        "/v1/scenes/..%2f..%2fpyproject.toml/image",
        "/v1/scenes/%2e%2e/image",
        "/static/..%2f..%2fpyproject.toml",
        "/static/%00",
        "/static/" + "x" * 5000,
        "//etc/passwd",
        "/%",
    ],
)
async def test_a_path_with_tricks_finds_nothing(server: Any, path: str) -> None:
    reader, writer = await dial(server)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    status = int((await cut(reader)).split()[1])
    writer.close()
    assert status in (400, 404, 422)


# Leaving


async def live_and_die(server: Any, dice: random.Random) -> None:
    """Up to a random moment, at which the connection is gone without a word."""
    url = "ws" + server.url.removeprefix("http") + SOCKET_PATH
    socket = await connect(url, proxy=None, compression=None, ping_interval=None)
    start = {"type": "session.start", **PROMPT, "mode": dice.choice(["continuous", "stepped"])}
    steps = dice.randrange(8)
    try:
        if steps > 0:
            await socket.send(json.dumps(start))
        for step in range(1, steps):
            await socket.recv()
            if dice.random() < 0.5:
                body = {"event_id": str(step), "event": {"prompt": f"wish {step}"}}
                await socket.send(json.dumps({"type": "session.interaction", "interaction": body}))
            if dice.random() < 0.2:
                kind = dice.choice(["session.reset", "session.cancel", "session.ping"])
                await socket.send(json.dumps({"type": kind}))
            await asyncio.sleep(dice.random() * 0.02)
            if start["mode"] == "stepped":
                break
    except ConnectionClosed:
        pass
    socket.transport.abort()
    await socket.wait_closed()


@pytest.mark.parametrize("after_grace", ["close", "suspend"])
async def test_clients_that_die_at_random_moments_leave_nothing_behind(
    start_server: Start, after_grace: str
) -> None:
    server = await start_server(resume_grace_s=0, after_grace=after_grace)
    engine, state = server.edge.engine, server.server.server_state
    async with server.client.stream(**PROMPT, num_frames=9) as first:  # whatever starts once has started
        await first.done()
    await server.until(lambda: not server.edge.manager.awake_count and not engine.status().worlds)
    baseline = len(asyncio.all_tasks())
    dice = random.Random(7)
    clients = [asyncio.create_task(live_and_die(server, dice)) for _ in range(50)]
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        while not all(client.done() for client in clients):
            assert (await http.get("/readyz")).status_code == 200
    await asyncio.gather(*clients)
    await server.until(lambda: not server.edge.manager.awake_count)
    await server.until(lambda: not engine.status().worlds and not engine.status().queue_depth)
    assert engine.status().pages_in_use == 0
    await server.until(lambda: not state.tasks and len(state.connections) <= 1)
    await server.until(lambda: len(asyncio.all_tasks()) <= baseline)
    async with server.client.stream(**PROMPT, num_frames=9) as last:
        assert (await last.done())["chunks"] == 1


class Slow(PatternEngine):
    """Takes its time to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def stop(self) -> None:
        await self.go.wait()
        await super().stop()


async def test_a_draining_server_is_not_ready_and_takes_nobody(start_server: Start) -> None:
    engine = Slow()
    server = await start_server(engine)
    async with server.client.stream(**PROMPT) as stream:
        await stream.chunk()
        draining = asyncio.create_task(server.edge.drain())
        await stream.message("session.draining")
        answer = await server.client.http.get("/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "the server is shutting down")
        assert (await server.client.http.get("/health")).status_code == 200
        with pytest.raises(ServerError) as refused:
            await server.client.create(**PROMPT)
        assert (refused.value.status, refused.value.retryable) == (503, True)
        await stream.done()
    assert stream.socket.close_code == 1001
    engine.go.set()
    await draining
