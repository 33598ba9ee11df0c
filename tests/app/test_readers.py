"""HTTP readers that stop reading."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from app.http_protocol import http_protocol
from tests.app.running_server import listening

PIECE = b"x" * 65_536
MOST = 64 * 2**20


class Endless:
    """An application whose answer never ends, as far as it is read."""

    def __init__(self) -> None:
        self.sent = 0
        self.left = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        sending = asyncio.create_task(self._send(send))
        await receive()  # the disconnect
        sending.cancel()
        self.left.set()

    async def _send(self, send: Any) -> None:
        while self.sent < MOST:
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            self.sent += len(PIECE)
            await asyncio.sleep(0)


@asynccontextmanager
async def reading(app: Endless, reader_s: float) -> AsyncIterator[asyncio.StreamReader]:
    """What comes to a reader of its answer, who may stop for `reader_s` seconds; it leaves with the block."""
    http = http_protocol(5.0, reader_s)
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, http=http)
    async with listening(uvicorn.Server(config)) as url:
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        writer.write(b"GET /video HTTP/1.1\r\nHost: here\r\n\r\n")
        yield reader
        writer.close()
        await app.left.wait()


async def test_a_reader_that_stops_makes_the_answer_wait_and_is_cut_in_time() -> None:
    app = Endless()
    async with reading(app, 0.3) as reader:
        await reader.readexactly(1000)  # and no more
        async with asyncio.timeout(20):
            await app.left.wait()
        assert 0 < app.sent < MOST / 2


async def test_a_slow_reader_is_served_to_the_end() -> None:
    app = Endless()
    async with reading(app, 5.0) as reader:
        for _ in range(64):  # more than every buffer between holds
            await reader.readexactly(2**18)
        assert not app.left.is_set()
