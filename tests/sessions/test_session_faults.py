"""A session chunk by chunk, on an engine, a journal or a reducer that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from scripted_engine import Failing, ScriptedEngine
from session_fixtures import STEPPED, KeysReducer, managed
from session_steps import facts_of, frames, press

from engine.api import ChunkCommitted, ChunkFailed, ChunkReady, FrozenJson, Tick
from sessions import facts
from sessions.errors import EchoMismatch, SessionFailed
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.state import SessionState


@pytest.mark.parametrize("stage", ["probe", "ready", "commit"])
@pytest.mark.parametrize("error", [ChunkFailed("out of memory"), ZeroDivisionError("out of memory")])
async def test_an_engine_that_raises_fails_the_session_which_a_reset_revives(
    stage: str, error: Exception
) -> None:
    journal = MemoryJournal()
    manager = await managed(Failing(stage, error), journal=journal)
    session, other = await manager.create(STEPPED), await manager.create(STEPPED)
    undisturbed = await frames(other, 1)
    await session.run_chunk()
    with pytest.raises(SessionFailed, match="out of memory"):
        await session.run_chunk()
    info = session.info()
    assert info.state is SessionState.FAILED
    assert "out of memory" in info.reason
    with pytest.raises(SessionFailed):
        await session.submit(press(1, "w"))
    with pytest.raises(SessionFailed):
        await session.run_chunk()
    assert other.info().state is SessionState.ACTIVE
    failed = [fact for fact in await facts_of(journal, session) if isinstance(fact, facts.SessionFailed)]
    assert [(fact.epoch, fact.chunk_index, fact.code) for fact in failed] == [(0, 1, "session_failed")]
    await session.reset(resume=True)
    assert session.info().state is SessionState.ACTIVE
    assert await frames(session, 1) == undisturbed


class WrongEcho(ScriptedEngine):
    at: type = ChunkReady

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        async for answer in super().run_chunk(tick, slack_s):
            wrong = replace(tick, prompt="another")
            yield replace(answer, tick=wrong) if isinstance(answer, self.at) else answer


@pytest.mark.parametrize("at", [ChunkReady, ChunkCommitted])
async def test_an_answer_to_another_tick_commits_nothing(at: type) -> None:
    engine, journal = WrongEcho(), MemoryJournal()
    engine.at = at
    session = await (await managed(engine, journal=journal)).create(STEPPED)
    with pytest.raises(EchoMismatch):
        await session.run_chunk()
    assert session.info().state is SessionState.FAILED
    assert session.info().chunk_index == 0
    assert not any(isinstance(fact, facts.ChunkCommitted) for fact in await facts_of(journal, session))


class HalfAnswer(ScriptedEngine):
    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        async for answer in super().run_chunk(tick, slack_s):
            if isinstance(answer, ChunkReady):
                yield answer


async def test_a_reducer_that_stumbles_at_a_chunk_fails_the_session_instead_of_every_chunk() -> None:
    class Stumbling(KeysReducer):
        def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
            raise ArithmeticError("gimbal lock")

    manager = SessionManager(ScriptedEngine(), MemoryJournal(), {"camera": Stumbling()})
    await manager.start()
    session = await manager.create(STEPPED)
    with pytest.raises(SessionFailed, match="gimbal lock"):
        await session.run_chunk()
    assert session.info().state is SessionState.FAILED
    await manager.stop()


async def test_an_engine_that_never_commits_fails_the_session() -> None:
    session = await (await managed(HalfAnswer())).create(STEPPED)
    with pytest.raises(SessionFailed, match="without committing"):
        await session.run_chunk()
