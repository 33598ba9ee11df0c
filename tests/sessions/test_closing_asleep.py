"""Closing sessions that are asleep, or nearly so, while others want them."""

from __future__ import annotations

import asyncio

import pytest
from failing_journals import SlowFacts
from session_fixtures import S, calm, managed
from session_steps import close_while_it_suspends

from sessions import facts
from sessions.errors import SessionClosed


async def test_a_session_is_not_woken_while_it_is_closed_in_its_sleep() -> None:
    journal = SlowFacts(facts.SessionClosed)
    manager = await managed(journal=journal)
    await (await manager.create(S)).suspend("idle")
    closings = [asyncio.create_task(manager.close("s")) for _ in range(2)]
    await calm()
    waking = asyncio.create_task(manager.awake("s"))
    await calm()
    journal.written.set()
    await asyncio.gather(*closings)
    with pytest.raises(SessionClosed):
        await waking
    await manager.create(S)  # the id is free
    await manager.stop()


async def test_a_close_also_ends_a_session_that_is_all_but_suspended() -> None:
    journal = SlowFacts(facts.SessionSuspended)
    manager = await managed(journal=journal)
    session = await manager.create(S)
    await close_while_it_suspends(manager, session, journal.written)
    assert await manager.list() == []
    assert await journal.open_lives() == []
    await manager.stop()


async def test_a_server_s_end_waits_for_a_close_that_is_being_written() -> None:
    journal = SlowFacts(facts.SessionClosed)
    manager = await managed(journal=journal)
    await (await manager.create(S)).suspend("idle")
    closing = asyncio.create_task(manager.close("s"))
    await calm()
    stopping = asyncio.create_task(manager.stop())
    await calm()
    assert not stopping.done()
    journal.written.set()
    await asyncio.gather(closing, stopping)
    assert await journal.open_lives() == []
