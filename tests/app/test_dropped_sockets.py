"""A connection that drops in the middle of a chunk, while controls are being sent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from app.client import ServerError
from engine.api import ChunkCommitted, ChunkReady, Tick
from engine.pattern.engine import PatternEngine

Start = Callable[..., Awaitable[Any]]
FREE = {"prompt": "a meadow", "seed": 5, "format": "annexb", "extra_params": {"pace_to_media_time": False}}


class Told(PatternEngine):
    """Tells what it was asked and what came of it; chunk 2 computes until it is cancelled, or let go."""

    def __init__(self) -> None:
        super().__init__()
        self.deeds: list[str] = []
        self.computing = asyncio.Event()
        self.go = asyncio.Event()
        self.hold_at: int | None = 2

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        self.deeds.append(f"run {tick.chunk_index}")
        held = self.hold_at == tick.chunk_index
        self.chunk_seconds = 1e9 if held else 0.0  # only a cancel ends it
        if held:
            self.computing.set()
        try:
            async for answer in super().run_chunk(tick, slack_s):
                self.deeds.append(f"{type(answer).__name__} {tick.chunk_index}")
                yield answer
        except Exception as error:
            self.deeds.append(f"{type(error).__name__} {tick.chunk_index}")
            raise

    async def close_world(self, world: str) -> None:
        await super().close_world(world)
        self.deeds.append("close")


async def drop(server: Any, engine: Told, mode: str) -> tuple[str, str, list[bytes]]:
    """Play up to chunk 2, send controls all the time, and break the connection while it computes."""
    async with server.client.stream(**FREE, mode=mode) as stream:
        walk = stream.video["session_id"], stream.video["token"]

        async def control() -> None:
            number = 0
            while True:
                await stream.keys("wasd"[number % 4], event_id=f"key {number}")
                number += 1
                await asyncio.sleep(0.002)

        controlling = asyncio.create_task(control())
        chunks = [(await stream.chunk()).data for _ in range(2)]
        await engine.computing.wait()
        stream.socket.transport.abort()
        with pytest.raises(ServerError):
            await controlling
    return *walk, chunks


async def quiet(server: Any) -> None:
    """Give whatever might still run some turns of the loop."""
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.mark.parametrize("mode", ["continuous", "stepped"])
async def test_nothing_runs_after_it_but_the_rollback_while_its_client_may_come_back(
    start_server: Start, mode: str
) -> None:
    engine = Told()
    server = await start_server(engine)
    session_id, token, chunks = await drop(server, engine, mode)
    await server.until(lambda: "ChunkCancelled 2" in engine.deeds)
    before = list(engine.deeds)
    assert before[-2:] == ["run 2", "ChunkCancelled 2"]
    await quiet(server)
    assert engine.deeds == before
    assert engine.status().queue_depth == 0
    engine.hold_at = None
    async with server.client.socket() as stream:  # and it goes on as if nothing had been computed
        await stream.resume(session_id, token, 1)
        again = await stream.chunk()
        assert again.metadata["transport_chunk_index"] == 2
        await stream.send("session.close")
    assert engine.deeds[len(before)] == "run 2" and chunks


async def test_without_grace_the_rollback_is_followed_by_the_close_alone(start_server: Start) -> None:
    engine = Told()
    server = await start_server(engine, resume_grace_s=0, after_grace="close")
    await drop(server, engine, "continuous")
    await server.until(lambda: not server.edge.manager.awake_count)
    assert engine.deeds[-3:] == ["run 2", "ChunkCancelled 2", "close"]
    await quiet(server)
    assert engine.deeds[-1] == "close" and engine.status().worlds == 0


async def test_pixels_that_have_left_are_committed(start_server: Start) -> None:
    engine = Told()
    engine.hold_at = None
    engine.commit_seconds = 0.05
    server = await start_server(engine)
    async with server.client.stream(**FREE) as stream:
        await stream.chunk()
        stream.socket.transport.abort()
    await server.until(lambda: not server.edge.engine.status().queue_depth)
    last = [deed for deed in engine.deeds if deed.startswith("ChunkReady")][-1].split()[1]
    assert f"ChunkCommitted {last}" in engine.deeds
