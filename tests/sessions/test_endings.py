"""What ends a session while it is being suspended or woken."""

from __future__ import annotations

import asyncio

import pytest
from manual_clock import ManualClock
from memory_stores import MemoryRecordings
from scripted_engine import ScriptedEngine
from session_fixtures import S, calm, managed
from session_steps import close_while_it_suspends
from walks import chunks_of, drain, managed_with_one, played

from sessions.errors import SessionSuspended
from sessions.memory_journal import MemoryJournal
from sessions.state import SessionState


class SlowToClose(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__()
        self.closes = asyncio.Event()

    async def close_world(self, world: str) -> None:
        if world in self.worlds:
            await self.closes.wait()
        await super().close_world(world)


async def test_who_comes_back_while_the_session_is_being_suspended_wakes_it_behind_that() -> None:
    engine, clock = SlowToClose(), ManualClock()
    manager = await managed(engine, clock=clock, recordings=MemoryRecordings())
    session, outbox = await played(manager, 2)
    session.leave(outbox)
    clock.advance(30.0)
    await calm()
    with pytest.raises(SessionSuspended):
        await session.resume(0)
    waking = asyncio.create_task(manager.awake("s"))
    await calm()
    engine.closes.set()
    woken = await waking
    assert woken is not session
    assert [chunk.transport_index for chunk in chunks_of(await drain(await woken.resume(0)))] == [1]
    await manager.stop()


async def test_a_close_wins_over_a_suspension() -> None:
    engine = SlowToClose()
    manager = await managed(engine)
    session = await manager.create(S)
    await close_while_it_suspends(manager, session, engine.closes)
    assert session.info().state is SessionState.CLOSED
    assert await manager.list() == []
    assert engine.worlds == {}


async def test_a_session_that_is_closed_while_it_wakes_stays_closed() -> None:
    journal = MemoryJournal()
    await managed_with_one(journal)
    manager = await managed(journal=journal)
    waking = asyncio.create_task(manager.awake("s"))
    await asyncio.sleep(0)
    await manager.close("s")
    await asyncio.gather(waking, return_exceptions=True)
    assert await journal.open_lives() == []
    assert await manager.list() == []
