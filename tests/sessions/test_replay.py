"""A session that is computed again from its journal comes out as it was shown."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_engine import ScriptedEngine
from session_fixtures import REDUCERS, S, keys, managed

from engine.api import OpenWorld
from engine.camera.reducer import CameraReducer
from engine.pattern.engine import PatternEngine
from sessions.errors import UnknownSession
from sessions.events import Event
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.replay import ReplayedChunk, replay_of
from sessions.session import Session
from sessions.sql_journal import SqlJournal


async def replayed(engine: ScriptedEngine, journal: MemoryJournal, session_id: str) -> list[ReplayedChunk]:
    await engine.start()
    replay = await replay_of(engine, journal, REDUCERS, session_id)
    chunks = [chunk async for chunk in replay.run()]
    assert len(chunks) == replay.chunks
    assert engine.worlds == {}
    return chunks


async def walked(journal: MemoryJournal) -> tuple[SessionManager, Session]:
    """With a reset and rewinds."""
    manager = await managed(journal=journal)
    session = await manager.create(S)
    for number in range(12):
        if number == 4:
            await session.reset(resume=True)
        if number in (8, 10):
            await session.rewind(1)
        await session.submit(Event(number, "rain" if number % 3 else None, (keys("wasd"[number % 4]),)))
        await session.run_chunk()
    return manager, session


async def test_resets_and_rewinds_are_followed() -> None:
    journal = MemoryJournal()
    await walked(journal)
    chunks = await replayed(ScriptedEngine(), journal, "s")
    assert [chunk.transport_index for chunk in chunks] == list(range(12))
    assert [(chunk.epoch, chunk.chunk_index) for chunk in chunks[3:9]] == [
        (0, 3),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
    ]
    assert all(chunk.same for chunk in chunks)


async def test_a_fork_is_replayed_on_its_past() -> None:
    journal = MemoryJournal()
    manager, _ = await walked(journal)
    fork = await manager.fork("s", replace(S, session_id="fork"), 2)
    await fork.submit(Event(100, "snow"))
    await fork.run_chunk()
    [chunk] = await replayed(ScriptedEngine(), journal, "fork")
    assert chunk.same and chunk.chunk_index == 2


async def test_a_model_that_is_another_one_is_found_out() -> None:
    class Another(ScriptedEngine):
        async def open_world(self, request: OpenWorld) -> None:
            await super().open_world(replace(request, seed=request.seed + 1))

    journal = MemoryJournal()
    await walked(journal)
    assert not any(chunk.same for chunk in await replayed(Another(), journal, "s"))


async def test_an_unknown_session_is_not_replayed() -> None:
    with pytest.raises(UnknownSession):
        await replay_of(ScriptedEngine(), MemoryJournal(), REDUCERS, "nobody")


@pytest.mark.parametrize(
    "chunks", [24, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
async def test_a_long_walk_with_prompts_resets_and_rewinds_verifies(chunks: int, tmp_path: Path) -> None:
    dice, journal = random.Random(chunks), SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    reducers = {"camera": CameraReducer()}
    manager = SessionManager(PatternEngine(), journal, reducers)
    await manager.start()
    session = await manager.create(replace(S, scene="plain"))
    for number in range(chunks):
        deed = dice.randrange(12)
        if deed == 0:
            await session.reset(resume=True)
        elif deed == 1:
            await session.rewind(dice.randrange(session.info().chunk_index + 1))
        await session.submit(Event(number, f"place {dice.randrange(9)}"))
        await session.run_chunk()
    await manager.stop()
    journal = SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    await journal.start()
    engine = PatternEngine()
    await engine.start()
    replay = await replay_of(engine, journal, reducers, "s")
    again = [chunk async for chunk in replay.run()]
    await journal.stop()
    assert [chunk.transport_index for chunk in again] == list(range(chunks))
    assert all(chunk.same for chunk in again)
