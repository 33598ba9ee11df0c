"""Readers who stop for a while without a word: what waits for them is bounded, and so is what is computed."""

import asyncio
import json
import socket as sockets
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from app.paths import socket_url
from sessions.outbox import Outbox
from tests.app.raw_socket import MASK, UPGRADE, port_of

Start = Callable[..., Awaitable[Any]]
LIMIT = 2**16
BIG = {"width": 192, "height": 128, "format": "jpeg", "extra_params": {"pace_to_media_time": False}}


async def playing(server: Any) -> ClientConnection:
    """A socket that takes no more from the network than is read from it."""
    url = socket_url(server.url)
    socket = await connect(url, max_queue=1, max_size=None, proxy=None, compression=None, ping_interval=None)
    await socket.send(
        json.dumps({"type": "session.start", "session_id": "slow", "prompt": "a", "seed": 1, **BIG})
    )
    return socket


async def next_index(socket: ClientConnection) -> int:
    """Of the next chunk."""
    while True:
        message = json.loads(await socket.recv())
        if message["type"] == "video.chunk_metadata":
            data = await socket.recv()
            assert len(data) == message["byte_length"]
            return int(message["transport_chunk_index"])


async def stuck(server: Any) -> Outbox:
    """Wait until nothing goes on any more; the outbox of the one who does not read."""
    seat = server.edge.manager.get("slow")._seat
    status = server.edge.engine.status
    await server.until(lambda: seat.outbox and not seat.outbox.has_room and not status().queue_depth)
    outbox: Outbox = seat.outbox
    return outbox


async def test_who_stops_reading_holds_up_its_own_stream_in_bounded_memory_and_may_go_on(
    start_server: Start,
) -> None:
    server = await start_server(outbox_max_bytes=LIMIT)
    socket = await playing(server)
    assert await next_index(socket) == 0
    outbox = await stuck(server)
    made = server.edge.manager.get("slow").info().chunk_index
    largest = max(output.size for output in outbox._waiting)
    assert outbox.statistics().most_bytes < LIMIT + largest
    (connection,) = (
        connection
        for connection in server.server.server_state.connections
        if hasattr(connection, "writable")  # the socket; the rest is HTTP
    )
    assert connection.transport.get_write_buffer_size() < 2 * largest + 2**16
    async with server.client.stream(prompt="another", num_frames=21) as other:  # nobody else is held up
        assert (await other.done())["chunks"] == 2
    assert server.edge.manager.get("slow").info().chunk_index == made
    assert [await next_index(socket) for _ in range(made + 5)] == list(range(1, made + 6))
    await socket.close()


async def test_who_does_not_come_back_to_reading_is_let_go_with_all_that_waited(start_server: Start) -> None:
    limits = {"stall_timeout_s": 0.5, "last_word_timeout_s": 0.2, "resume_grace_s": 0, "after_grace": "close"}
    server = await start_server(outbox_max_bytes=LIMIT, **limits)
    socket = await playing(server)
    assert await next_index(socket) == 0
    outbox = await stuck(server)
    await server.until(lambda: not server.edge.manager.awake_count)
    state = server.server.server_state
    await server.until(lambda: not state.tasks and not state.connections)
    assert outbox.statistics().bytes == 0 and server.edge.engine.status().worlds == 0
    socket.transport.abort()
    await socket.wait_closed()


async def test_who_dies_between_its_stop_and_the_last_word_leaves_no_session(start_server: Start) -> None:
    server = await start_server(outbox_max_bytes=LIMIT)
    socket = await playing(server)
    assert await next_index(socket) == 0
    outbox = await stuck(server)
    await socket.send(json.dumps({"type": "session.stop"}))
    await server.until(lambda: outbox.terminal)  # behind chunks that nobody reads
    socket.transport.abort()
    await server.until(lambda: not server.edge.manager.awake_count)
    assert server.edge.engine.status().worlds == 0
    await socket.wait_closed()


async def test_pings_of_a_peer_that_reads_nothing_do_not_pile_up(start_server: Start) -> None:
    server = await start_server()
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port_of(server)))
    reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
    writer.write(UPGRADE)
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
