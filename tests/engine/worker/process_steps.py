"""Steps with an engine in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scripted_host import tick

from engine.api import (
    ChunkCommitted,
    ChunkReady,
    EncodedChunk,
    EngineState,
)
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine


@asynccontextmanager
async def engine(
    factory: str = "scripted_host:process_host", delays: tuple[float, ...] = (0.01,), **arguments: object
) -> AsyncIterator[ProcessEngine]:
    process = ProcessEngine(Boot(factory, arguments), {"OMP_NUM_THREADS": "1"}, delays)
    try:
        await process.start()
        yield process
    finally:
        await process.stop()


async def play(process: ProcessEngine, world: str, index: int) -> EncodedChunk:
    ready, committed = [answer async for answer in process.run_chunk(tick(world, index))]
    assert isinstance(ready, ChunkReady) and isinstance(committed, ChunkCommitted)
    assert ready.tick == committed.tick == tick(world, index)
    return ready.media


async def until(process: ProcessEngine, state: EngineState) -> None:
    async with asyncio.timeout(60):
        while process.status().state is not state:  # noqa: ASYNC110 (an operator polls, too)
            await asyncio.sleep(0.01)


def worker_pid(process: ProcessEngine) -> int:
    assert process._child is not None
    return process._child.process.pid
