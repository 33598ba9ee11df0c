"""What a chunk waits for, and what waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, managed

from engine.api import Tick
from sessions.observer import ChunkTimes, Observer
from sessions.outputs import ChunkOutput
from sessions.spec import Pacing


async def test_the_next_chunk_is_asked_for_before_the_last_one_is_measured() -> None:
    course: list[str] = []

    class Asked(ScriptedEngine):
        async def probe(self, tick: Tick) -> None:
            course.append(f"asked for {tick.chunk_index}")

    class Measuring(Observer):
        def chunk_committed(self, times: ChunkTimes) -> None:
            course.append("measured")

    manager = await managed(Asked(), observer=Measuring())
    spec = replace(SPEC, pacing=Pacing(to_media_time=False), num_frames=9 + 12 + 12)
    session = await manager.create(spec)
    async with asyncio.timeout(30):
        chunks = [output async for output in session.play() if isinstance(output, ChunkOutput)]
    assert len(chunks) == 3
    await manager.stop()
    assert course == ["asked for 0", "asked for 1", "measured", "asked for 2", "measured", "measured"]
