"""Closing sessions, and the tombstones of those that can not be closed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from failing_journals import FullJournal
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, STEPPED, managed

from engine.api import CloseFailed
from sessions import facts
from sessions.errors import CapacityExceeded, SessionClosed, SessionTombstoned, UnknownSession
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.state import SessionState


async def test_a_closed_id_can_be_used_again_as_another_instance() -> None:
    manager = await managed()
    first = await manager.create(replace(STEPPED, session_id="s"))
    await first.run_chunk()
    await manager.close("s")
    with pytest.raises(SessionClosed):
        manager.get("s")
    second = await manager.create(replace(STEPPED, session_id="s"))
    assert second.info().world != first.info().world
    assert second.info().chunk_index == 0
    await manager.stop()


async def test_close_is_idempotent_also_from_two_sides_at_once() -> None:
    engine = ScriptedEngine()
    manager = await managed(engine)
    session = await manager.create(replace(SPEC, session_id="s"))
    await asyncio.gather(session.close(), manager.close("s"), session.close("other"))
    await manager.close("s")
    await session.close()
    assert engine.log == ["open", "close"]
    with pytest.raises(UnknownSession):
        await manager.close("nobody")
    await manager.stop()


async def test_an_id_that_was_closed_long_ago_is_closed_still() -> None:
    manager = await managed(limits=Limits(remembered_ids=1))
    for session_id in ("a", "b"):
        await manager.create(replace(SPEC, session_id=session_id))
        await manager.close(session_id)
    with pytest.raises(UnknownSession):
        manager.get("a")
    await manager.close("a")  # the journal remembers
    await manager.stop()


class StuckClose(ScriptedEngine):
    stuck = True

    async def close_world(self, world: str) -> None:
        if self.stuck:
            raise CloseFailed("3 pages are still leased")
        await super().close_world(world)


async def test_a_world_that_can_not_be_released_is_a_tombstone_until_a_retry_succeeds() -> None:
    engine = StuckClose()
    manager = await managed(engine)
    session = await manager.create(replace(SPEC, session_id="s"))
    for _ in range(2):
        with pytest.raises(SessionTombstoned, match="3 pages"):
            await manager.close("s")
    info = manager.get("s").info()
    assert (info.state, info.reason) == (SessionState.CLEANUP_FAILED, "3 pages are still leased")
    with pytest.raises(SessionTombstoned):
        await manager.create(replace(SPEC, session_id="s"))
    with pytest.raises(SessionTombstoned):
        await session.reset()
    engine.stuck = False
    await manager.close("s")
    assert session.info().state is SessionState.CLOSED
    await manager.create(replace(SPEC, session_id="s"))
    await manager.stop()


async def test_a_session_that_can_not_be_put_away_for_another_does_not_give_the_other_its_error() -> None:
    engine = StuckClose()
    manager = await managed(engine, limits=Limits(sessions=1))
    await manager.create(replace(STEPPED, session_id="old"))
    with pytest.raises(CapacityExceeded):
        await manager.create(replace(STEPPED, session_id="new"))
    engine.stuck = False
    await manager.stop()


class BrokenClose(ScriptedEngine):
    async def close_world(self, world: str) -> None:
        raise ZeroDivisionError


async def test_an_engine_that_breaks_while_it_closes_leaves_a_tombstone_too() -> None:
    manager = await managed(BrokenClose())
    session = await manager.create(SPEC)
    with pytest.raises(SessionTombstoned, match="ZeroDivisionError"):
        await session.close()
    assert session.info().state is SessionState.CLEANUP_FAILED


class SilentClose(ScriptedEngine):
    async def close_world(self, world: str) -> None:
        await asyncio.Event().wait()


async def test_a_close_that_takes_too_long_says_what_is_pending() -> None:
    manager = await managed(SilentClose(), limits=Limits(close_s=0.01))
    session = await manager.create(SPEC)
    with pytest.raises(SessionTombstoned, match=r"longer than 0\.01 s; pending: the engine's answer"):
        await session.close()


async def test_a_close_that_can_not_be_journalled_closes_all_the_same() -> None:
    engine = ScriptedEngine()
    manager = await managed(engine, journal=FullJournal(facts.SessionClosed))
    session = await manager.create(SPEC)
    await session.close()
    assert session.info().state is SessionState.CLOSED
    assert engine.worlds == {}


async def behind_a_server_that_left_a_tombstone() -> SessionManager:
    journal = MemoryJournal()
    before = await managed(StuckClose(), journal=journal)
    await before.create(replace(SPEC, session_id="s"))
    with pytest.raises(SessionTombstoned):
        await before.close("s")
    return await managed(journal=journal)


async def test_a_tombstone_survives_a_restart_until_its_close_is_retried() -> None:
    after = await behind_a_server_that_left_a_tombstone()
    assert (await after.info("s")).state is SessionState.CLEANUP_FAILED
    with pytest.raises(SessionTombstoned):
        await after.create(replace(SPEC, session_id="s"))
    with pytest.raises(SessionTombstoned):
        await (await after.awake("s")).reset(resume=True)
    with pytest.raises(SessionTombstoned):
        await after.create(replace(SPEC, session_id="s"))
    await after.close("s")
    await after.create(replace(SPEC, session_id="s"))


async def test_a_tombstone_of_a_former_server_is_closed_without_being_woken() -> None:
    after = await behind_a_server_that_left_a_tombstone()
    await after.close("s")
    await after.create(replace(SPEC, session_id="s"))
