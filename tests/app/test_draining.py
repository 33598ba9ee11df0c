"""A server that ends, as its clients see it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.client import ServerError
from engine.pattern.engine import PatternEngine

Start = Callable[..., Awaitable[Any]]
PROMPT = {"prompt": "a meadow"}


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
