"""Sessions end when they have lived long enough, and rest when nobody uses them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, STEPPED, calm, managed, until

from sessions.errors import SessionClosed
from sessions.limits import Limits
from sessions.memory_journal import MemoryJournal
from sessions.outputs import Failed
from sessions.state import SessionState


async def test_an_idle_session_is_suspended_and_one_that_is_played_is_not() -> None:
    clock, engine = ManualClock(), ScriptedEngine()
    manager = await managed(engine, clock=clock, limits=Limits(idle_s=60.0))
    idle = await manager.create(replace(STEPPED, session_id="idle"))
    played = await manager.create(replace(SPEC, session_id="played"))
    played.play()
    clock.advance(59)
    await calm()
    assert (await manager.info("idle")).state is SessionState.ACTIVE
    await idle.run_chunk()  # used
    for _ in range(8):
        clock.advance(7.4)
    await calm()
    assert (await manager.info("idle")).state is SessionState.ACTIVE
    for _ in range(2):
        clock.advance(7.5)
    await until(lambda: manager.awake_count == 1)
    assert (await manager.info("idle")).state is SessionState.SUSPENDED
    assert len(engine.worlds) == 1
    await (await manager.awake("idle")).run_chunk()  # it goes on where it was
    assert (await manager.info("idle")).chunk_index == 2
    await manager.stop()


async def test_a_session_that_has_lived_long_enough_is_closed_with_the_reason() -> None:
    clock, engine = ManualClock(), ScriptedEngine()
    manager = await managed(engine, clock=clock, limits=Limits(lifetime_s=3600.0))
    session = await manager.create(replace(SPEC, session_id="old"))
    outbox = session.play()
    clock.advance(3599)
    await calm()
    assert outbox.terminal is None
    clock.advance(30)
    await until(lambda: not manager.awake_count)
    assert isinstance(outbox.terminal, Failed)
    assert outbox.terminal.code == "session_expired"
    assert outbox.terminal.message == "a session lives for 3600 seconds at most"
    assert engine.worlds == {}
    with pytest.raises(SessionClosed):
        manager.get("old")
    await manager.stop()


async def test_a_suspended_session_grows_old_too_across_a_restart() -> None:
    clock, journal = ManualClock(), MemoryJournal()
    limits = Limits(lifetime_s=3600.0)
    manager = await managed(clock=clock, journal=journal, limits=limits)
    await manager.create(replace(STEPPED, session_id="old"))
    await manager.stop()
    manager = await managed(clock=clock, journal=journal, limits=limits)
    assert (await manager.info("old")).state is SessionState.SUSPENDED
    clock.advance(3700)
    await calm()
    assert await journal.open_lives() == []
    await manager.stop()
