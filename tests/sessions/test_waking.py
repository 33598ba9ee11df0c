"""A session that was suspended, or whose server was killed, goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from memory_stores import MemoryRecordings, MemorySnapshots
from scripted_engine import ScriptedEngine
from session_fixtures import S, calm, managed, until
from session_steps import press
from walks import chunks_of, drain, undisturbed, walk

from engine.api import OpenWorld
from sessions.errors import EventIdConflict, JournalCorrupt, ReplayDiverged, SessionClosed, SessionSuspended
from sessions.events import Acceptance, Event
from sessions.limits import Limits
from sessions.memory_journal import MemoryJournal
from sessions.snapshots import Point
from sessions.sql_journal import SqlJournal
from sessions.state import SessionState


async def test_a_suspended_session_goes_on_as_if_nothing_had_been() -> None:
    engine, snapshots = ScriptedEngine(), MemorySnapshots()
    manager = await managed(engine, snapshots=snapshots)
    digests = await walk(await manager.create(S), 0, 3)
    session = manager.get("s")
    await session.suspend("disconnected")
    assert engine.worlds == {}
    assert (await manager.info("s")).state is SessionState.SUSPENDED
    assert (await manager.info("s")).chunk_index == 3
    with pytest.raises(SessionSuspended):
        await session.submit(press(9, "w"))
    woken = await manager.awake("s")
    assert woken is not session
    digests += await walk(woken, 3, 6)
    assert digests == await undisturbed(6)
    assert engine.log.count("restore") == 1
    assert len(engine.ticks) == 6


async def test_two_who_wake_a_session_get_the_same() -> None:
    manager = await managed()
    await (await manager.create(S)).suspend("disconnected")
    first, second = await asyncio.gather(manager.awake("s"), manager.awake("s"))
    assert first is second


@pytest.mark.parametrize("kill_at", ["computing", "shown"])
async def test_after_a_kill_another_server_goes_on_with_the_very_tick(kill_at: str) -> None:
    journal, snapshots, engine = MemoryJournal(), MemorySnapshots(), ScriptedEngine()
    limits = Limits(snapshot_every=2)
    before = await managed(engine, journal=journal, snapshots=snapshots, limits=limits)
    session = await before.create(S)
    digests = await walk(session, 0, 3)
    await session.submit(press(3, "d"))
    (engine.gate if kill_at == "computing" else engine.commits).clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: len(engine.ticks) == 4)
    await calm()
    shown = [output.media.digest for output in session.audience.tape.since(2)]
    engine_now = ScriptedEngine()
    after = await managed(engine_now, journal=journal, snapshots=snapshots, limits=limits)
    woken = await after.awake("s")
    if kill_at == "shown":
        assert len(shown) == 1
        missed = chunks_of(await drain(await woken.resume(2)))
        assert [chunk.media.digest for chunk in missed] == shown
        await woken.stop()
        digests += shown
    else:
        digests.append((await woken.run_chunk()).media.digest)
    assert woken.info().chunk_index == 4
    digests += await walk(woken, 4, 6)
    assert digests == await undisturbed(6)
    assert engine_now.ticks[0].chunk_index == 2  # not from the beginning
    chunk.cancel()
    await asyncio.gather(chunk, return_exceptions=True)


async def test_no_acknowledged_event_is_lost_and_none_is_applied_twice() -> None:
    journal = MemoryJournal()
    before = await managed(journal=journal)
    session = await before.create(S)
    await session.submit(press(0, "w"))
    await session.run_chunk()
    await session.submit(press(1, "a"))
    await session.interact("evt-b", "rain")
    woken = await (await managed(journal=journal)).awake("s")
    assert woken.info().pending_event_ids == (1, 2)
    assert await woken.submit(press(0, "w")) is Acceptance.DUPLICATE
    assert await woken.submit(press(1, "a")) is Acceptance.DUPLICATE
    assert await woken.interact("evt-b", "rain") is Acceptance.DUPLICATE
    chunk = await woken.run_chunk()
    assert chunk.started_event_ids == ("1", "evt-b")
    await woken.run_chunk()
    with pytest.raises(EventIdConflict):
        await woken.submit(Event(2, "snow"))


async def test_a_snapshot_that_is_spoiled_or_wrong_costs_time_and_nothing_else() -> None:
    snapshots, journal = MemorySnapshots(), MemoryJournal()
    limits = Limits(snapshot_every=2)
    before = await managed(snapshots=snapshots, journal=journal, limits=limits)
    digests = await walk(await before.create(S), 0, 7)
    world = before.get("s").info().world
    assert await snapshots.points(world) == [Point(0, 2), Point(0, 4), Point(0, 6)]
    snapshots.data[world, Point(0, 6)] = b"torn"
    snapshots.data[world, Point(0, 4)] = snapshots.data[world, Point(0, 4)].replace(b'"', b'"0', 1)
    engine = ScriptedEngine()
    woken = await (await managed(engine, snapshots=snapshots, journal=journal, limits=limits)).awake("s")
    digests += await walk(woken, 7, 9)
    assert digests == await undisturbed(9)
    assert [tick.chunk_index for tick in engine.ticks] == [4, 2, 3, 4, 5, 6, 7, 8]


async def test_a_model_that_is_another_one_fails_the_session_instead_of_going_on_wrongly() -> None:
    class Another(ScriptedEngine):
        async def open_world(self, request: OpenWorld) -> None:
            await super().open_world(replace(request, seed=request.seed + 1))

    journal = MemoryJournal()
    await walk(await (await managed(journal=journal)).create(S), 0, 2)
    woken = await (await managed(Another(), journal=journal)).awake("s")
    with pytest.raises(ReplayDiverged, match="chunk 0 of epoch 0"):
        await woken.run_chunk()
    assert woken.info().state is SessionState.FAILED


async def test_full_stores_cost_neither_chunks_nor_sessions() -> None:
    snapshots, recordings = MemorySnapshots(), MemoryRecordings()
    snapshots.full = recordings.full = True
    manager = await managed(snapshots=snapshots, recordings=recordings, limits=Limits(snapshot_every=1))
    digests = await walk(await manager.create(S), 0, 3)
    await manager.get("s").suspend("disconnected")
    digests += await walk(await manager.awake("s"), 3, 5)
    assert digests == await undisturbed(5)


async def test_a_reset_leaves_no_snapshot_behind() -> None:
    snapshots = MemorySnapshots()
    manager = await managed(snapshots=snapshots, limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    await walk(session, 0, 4)
    assert snapshots.data
    await session.reset(resume=True)
    await session.suspend("disconnected")
    assert not snapshots.data


async def test_a_closed_session_takes_its_snapshots_along() -> None:
    snapshots = MemorySnapshots()
    manager = await managed(snapshots=snapshots, limits=Limits(snapshot_every=1))
    for session_id in ("a", "b"):
        await walk(await manager.create(replace(S, session_id=session_id)), 0, 2)
    await manager.close("a")
    await manager.get("b").suspend("disconnected")
    assert snapshots.data
    await manager.close("b")  # without waking it
    assert not snapshots.data
    with pytest.raises(SessionClosed):
        await manager.awake("b")


@pytest.mark.parametrize("spoil", ["torn", "out of order"])
async def test_a_corrupt_journal_is_refused_and_harms_no_other_session(spoil: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    before = await managed(journal=SqlJournal(url))
    for session_id in ("s", "healthy"):
        await walk(await before.create(replace(S, session_id=session_id)), 0, 2)
    world = before.get("s").info().world
    await before.stop()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        change = "content = substr(content, 1, 40)" if spoil == "torn" else "content = replace(content, ?, ?)"
        values = () if spoil == "torn" else ('"chunk_index":0', '"chunk_index":5')
        database.execute(f"UPDATE facts SET {change} WHERE world = ? AND kind = 'begun'", (*values, world))
    database.close()
    manager = await managed(journal=SqlJournal(url))
    with pytest.raises(JournalCorrupt, match="fact"):
        await manager.awake("s")
    assert [info.session_id for info in await manager.list()] == ["healthy"]
    await walk(await manager.awake("healthy"), 2, 3)
    await manager.close("s")
    await manager.stop()
