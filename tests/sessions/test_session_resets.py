"""Resets and the end of a session, whatever is under way."""

from __future__ import annotations

import asyncio

import pytest
from memory_stores import MemoryRecordings
from scripted_engine import ScriptedEngine
from session_fixtures import STEPPED, calm, managed, until
from session_steps import frames, press, with_chunk_shown

from sessions import facts
from sessions.errors import (
    ChunkAborted,
    EngineTimeout,
    SessionClosed,
    SessionError,
    SessionFailed,
    WrongState,
)
from sessions.events import Event
from sessions.limits import Limits
from sessions.memory_journal import MemoryJournal
from sessions.state import SessionState

# Resets


async def test_a_reset_starts_the_same_world_again() -> None:
    session = await (await managed()).create(STEPPED)
    first = await frames(session, 3)
    await session.submit(Event(1, "rain"))
    await frames(session, 1)
    done = await session.reset(resume=True)
    assert (done.epoch, done.discarded_event_ids) == (1, ())
    assert await frames(session, 3) == first


async def test_a_reset_drops_pending_events_by_id() -> None:
    session = await (await managed()).create(STEPPED)
    await session.submit(press(3, "w"))
    await session.interact("evt-a", "rain")
    done = await session.reset()
    assert done.discarded_event_ids == ("3", "evt-a")
    assert session.info().waiting
    with pytest.raises(WrongState, match="no prompt since the reset"):
        await session.run_chunk()
    await session.submit(Event(9, "snow"))
    assert (await session.run_chunk()).tick.prompt == "snow"


async def test_a_reset_cancels_the_chunk_in_flight() -> None:
    engine = ScriptedEngine()
    session = await (await managed(engine)).create(STEPPED)
    await session.submit(press(1, "w"))
    engine.gate.clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: engine.ticks)
    done = await session.reset(resume=True)
    assert done.discarded_event_ids == ("1",)
    with pytest.raises(ChunkAborted):
        await chunk
    engine.gate.set()
    assert (await session.run_chunk()).tick.event_ids == ()


async def test_events_that_come_during_a_reset_belong_to_the_new_epoch() -> None:
    engine = ScriptedEngine()
    session, chunk = await with_chunk_shown(engine)
    reset = asyncio.create_task(session.reset())
    await calm()
    assert not reset.done()
    await session.submit(Event(1, "snow"))
    engine.commits.set()
    assert (await reset).discarded_event_ids == ()
    with pytest.raises(ChunkAborted):
        await chunk
    chunk = await session.run_chunk()
    assert (chunk.tick.epoch, chunk.tick.event_ids, chunk.tick.chunk_index) == (1, (1,), 0)


async def test_a_chunk_that_waits_for_its_turn_lets_a_reset_go_first() -> None:
    engine = ScriptedEngine()
    session, first = await with_chunk_shown(engine)
    second = asyncio.create_task(session.run_chunk())
    await calm()
    reset = asyncio.create_task(session.reset(resume=True))
    await calm()
    engine.commits.set()
    await reset
    assert ((await second).tick.epoch, session.info().state) == (1, SessionState.ACTIVE)
    await asyncio.gather(first, return_exceptions=True)


class SlowJournal(MemoryJournal):
    """Chunks are begun in it only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Future[None]] = []

    def append(self, world: str, expected: int, fact: facts.Fact, at: float) -> asyncio.Future[None]:
        written = super().append(world, expected, fact, at)
        if not isinstance(fact, facts.ChunkBegun):
            return written
        self.held.append(asyncio.get_running_loop().create_future())
        return self.held[-1]

    def let_go(self) -> None:
        self.held.pop().set_result(None)


@pytest.mark.parametrize("end", ["reset", "close"])
async def test_pixels_whose_tick_is_being_written_leave_before_a_reset_or_close(end: str) -> None:
    journal, recordings = SlowJournal(), MemoryRecordings()
    session = await (await managed(journal=journal, recordings=recordings)).create(STEPPED)
    await session.submit(press(1, "w"))
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: journal.held)
    ending = asyncio.create_task(session.reset(resume=True) if end == "reset" else session.close())
    await calm()
    journal.let_go()
    done = await ending
    with pytest.raises(ChunkAborted if end == "reset" else SessionClosed):
        await chunk
    assert [len(kept) for kept in recordings.kept.values()] == [1], "as many as the journal says"
    if end == "reset":
        assert done.discarded_event_ids == ()  # its effect was seen
        chunk = asyncio.create_task(session.run_chunk())
        await until(lambda: journal.held)
        journal.let_go()
        assert ((await chunk).tick.epoch, (await chunk).transport_index) == (1, 1)


class SilentReset(ScriptedEngine):
    async def reset_world(self, world: str) -> None:
        await asyncio.Event().wait()


async def test_a_reset_that_takes_too_long_fails_the_session_and_says_what_is_pending() -> None:
    session = await (await managed(SilentReset(), limits=Limits(reset_s=0.01))).create(STEPPED)
    with pytest.raises(EngineTimeout, match=r"longer than 0\.01 s"):
        await session.reset()
    assert session.info().state is SessionState.FAILED
    await session.close()


class BrokenReset(ScriptedEngine):
    async def reset_world(self, world: str) -> None:
        raise ZeroDivisionError


async def test_an_engine_that_breaks_in_a_reset_fails_the_session() -> None:
    session = await (await managed(BrokenReset())).create(STEPPED)
    with pytest.raises(SessionFailed, match="ZeroDivisionError"):
        await session.reset()
    assert session.info().state is SessionState.FAILED
    await session.close()


async def test_resets_at_once_take_turns() -> None:
    session = await (await managed()).create(STEPPED)
    done = await asyncio.gather(session.reset(), session.reset(resume=True), session.reset(resume=True))
    assert [reset.epoch for reset in done] == [1, 2, 3]
    assert (await session.run_chunk()).tick.epoch == 3


# Closing


async def test_a_closed_session_takes_nothing() -> None:
    session = await (await managed()).create(STEPPED)
    await session.close()
    for call in (session.run_chunk(), session.submit(press(1, "w")), session.reset()):
        with pytest.raises(SessionClosed):
            await call
    with pytest.raises(SessionClosed):
        session.play()


async def test_closing_gives_up_the_chunk_in_flight() -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    session = await (await managed(engine)).create(STEPPED)
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: engine.ticks)
    await session.close()
    with pytest.raises(SessionClosed):
        await chunk
    assert engine.worlds == {}


async def test_closing_during_a_reset_leaves_no_world() -> None:
    engine = ScriptedEngine()
    session, chunk = await with_chunk_shown(engine)
    reset = asyncio.create_task(session.reset())
    await calm()
    close = asyncio.create_task(session.close())
    await calm()
    engine.commits.set()
    await close
    await asyncio.gather(reset, chunk, return_exceptions=True)
    assert isinstance(reset.exception(), SessionError)
    assert engine.worlds == {}
    assert session.info().state is SessionState.CLOSED
