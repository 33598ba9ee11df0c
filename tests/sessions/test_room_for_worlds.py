"""Idle worlds make room for others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from manual_clock import ManualClock
from memory_stores import MemorySnapshots
from scripted_engine import ScriptedEngine
from session_fixtures import S, managed, until
from session_steps import press
from walks import drain

from sessions.errors import CapacityExceeded
from sessions.limits import Limits
from sessions.outputs import Evicted
from sessions.state import SessionState


async def test_an_idle_world_makes_room_and_comes_back_when_it_is_needed() -> None:
    engine = ScriptedEngine(capacity=1)
    manager = await managed(engine, snapshots=MemorySnapshots())
    first = await manager.create(replace(S, session_id="first"))
    outbox = first.play()
    await first.interact("evt-0", "hail")
    await until(lambda: first.info().chunk_index == 1)
    second = await manager.create(replace(S, session_id="second"))
    assert first.info().state is SessionState.SUSPENDED
    assert Evicted() in await drain(outbox)
    await second.run_chunk()
    await first.interact("evt-a", "rain")
    await until(lambda: first.info().chunk_index == 2)
    assert second.info().state is SessionState.SUSPENDED
    await manager.stop()


async def test_the_least_recently_used_goes_first_and_a_busy_one_never() -> None:
    engine, clock = ScriptedEngine(capacity=2), ManualClock()
    manager = await managed(engine, clock=clock)
    old = await manager.create(replace(S, session_id="old"))
    clock.advance(1.0)
    new = await manager.create(replace(S, session_id="new"))
    clock.advance(1.0)
    await old.submit(press(1, "w"))
    await manager.create(replace(S, session_id="third"))
    assert new.info().state is SessionState.SUSPENDED
    assert old.info().state is SessionState.ACTIVE
    engine.gate.clear()
    chunks = [asyncio.create_task(manager.get(name).run_chunk()) for name in ("old", "third")]
    await until(lambda: len(engine.ticks) == 2)
    with pytest.raises(CapacityExceeded):
        await new.run_chunk()
    engine.gate.set()
    await asyncio.gather(*chunks)
    await new.run_chunk()


async def test_a_session_that_nobody_plays_makes_place_in_memory() -> None:
    manager = await managed(limits=Limits(sessions=1))
    await manager.create(replace(S, session_id="a"))
    await manager.create(replace(S, session_id="b"))
    assert (await manager.info("a")).state is SessionState.SUSPENDED
    assert [info.session_id for info in await manager.list()] == ["a", "b"]
    await (await manager.awake("a")).run_chunk()
    assert (await manager.info("b")).state is SessionState.SUSPENDED
