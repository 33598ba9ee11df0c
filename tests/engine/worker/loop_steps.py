"""Steps with an engine on this process's own loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scripted_host import Record, ScriptedHost, request, tick

from engine.api import ChunkCommitted, ChunkReady, EncodedChunk
from engine.media.chunk import encode_chunk
from engine.worker.local import LocalEngine
from engine.worker.loop import Encode


@asynccontextmanager
async def engine(
    record: Record | None = None,
    *worlds: str,
    encode: Encode = encode_chunk,
    timeout_s: float = 30.0,
    capacity: int = 8,
) -> AsyncIterator[LocalEngine]:
    local = LocalEngine(ScriptedHost(record, capacity), encode, timeout_s)
    await local.start()
    try:
        for world in worlds:
            await local.open_world(request(world))
        yield local
    finally:
        await local.stop()


async def play(local: LocalEngine, world: str, index: int, slack_s: float | None = None) -> EncodedChunk:
    """Run one chunk to its end."""
    answers = [answer async for answer in local.run_chunk(tick(world, index), slack_s)]
    ready, committed = answers
    assert isinstance(ready, ChunkReady) and isinstance(committed, ChunkCommitted)
    assert ready.tick == committed.tick == tick(world, index)
    return ready.media


async def walk(local: LocalEngine, world: str, chunks: int) -> list[EncodedChunk]:
    return [await play(local, world, index) for index in range(chunks)]


async def reached(stage: threading.Event) -> None:
    assert await asyncio.to_thread(stage.wait, 30)


async def computed(record: Record, world: str, chunk: int) -> None:
    """Wait until a chunk was computed and written."""
    async with asyncio.timeout(30):
        while ("write", world, chunk) not in record.events:  # noqa: ASYNC110 (a list of the device's thread)
            await asyncio.sleep(0.001)


def names(record: Record, world: str) -> list[str]:
    return [name for name, where, _ in record.events if where == world]
