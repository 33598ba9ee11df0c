"""A journal that can't be written to costs chunks and not sessions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from failing_journals import FullJournal
from memory_stores import MemorySnapshots
from scripted_engine import ScriptedEngine
from session_fixtures import S, calm, managed, until
from session_steps import press, until_shown
from walks import chunks_of, drain, played, undisturbed, walk

from sessions import facts
from sessions.errors import JournalUnavailable
from sessions.limits import Limits
from sessions.outputs import Failed
from sessions.snapshots import Point
from sessions.state import SessionState


async def test_a_chunk_whose_tick_can_not_be_written_is_not_shown_and_the_session_goes_on() -> None:
    journal, engine = FullJournal(full=False), ScriptedEngine()
    manager = await managed(engine, journal=journal, snapshots=MemorySnapshots())
    session = await manager.create(S)
    digests = await walk(session, 0, 3)
    await session.submit(press(3, "d"))
    journal.full = True
    for _ in range(5):  # more often than worlds may be lost
        with pytest.raises(JournalUnavailable):
            await session.run_chunk()
        with pytest.raises(JournalUnavailable):
            await session.submit(press(4, "w"))
    info = session.info()
    assert (info.chunk_index, info.pending_event_ids) == (3, (3,))
    journal.full = False
    chunk = await session.run_chunk()
    assert (chunk.transport_index, chunk.started_event_ids) == (3, ("3",))
    digests += [chunk.media.digest, *await walk(session, 4, 6)]
    assert digests == await undisturbed(6)
    assert [output.transport_index for output in session.audience.tape.since(-1)] == list(range(6))


async def test_a_commit_that_can_not_be_written_is_written_later() -> None:
    journal, engine, snapshots = FullJournal(full=False), ScriptedEngine(), MemorySnapshots()
    manager = await managed(engine, journal=journal, snapshots=snapshots, limits=Limits(snapshot_every=1))
    session = await manager.create(S)
    world, digests = session.info().world, await walk(session, 0, 1)
    engine.commits.clear()
    await session.submit(press(1, "a"))
    chunk = asyncio.create_task(session.run_chunk())
    await until_shown(session)
    journal.full = True
    engine.commits.set()
    digests.append((await chunk).media.digest)
    await calm()
    assert not snapshots.sessions[world, Point(0, 2)]  # of what the journal does not have
    with pytest.raises(JournalUnavailable):
        await session.submit(press(2, "s"))
    with pytest.raises(JournalUnavailable):
        await session.run_chunk()
    engine.worlds.clear()  # what is made again is read from a journal that has the commit
    with pytest.raises(JournalUnavailable):
        await session.rewind(1)
    journal.full = False
    digests += await walk(session, 2, 4)
    assert digests == await undisturbed(4)
    recorded = [record.fact for record in await journal.read(world)]
    committed = [fact.chunk_index for fact in recorded if isinstance(fact, facts.ChunkCommitted)]
    assert committed == [0, 1, 2, 3]
    await manager.stop()
    woken = await (await managed(journal=journal)).awake("s")
    assert (woken.info().chunk_index, woken.info().state) == (4, SessionState.SUSPENDED)


async def test_a_stream_whose_tick_can_not_be_written_ends_and_may_be_resumed() -> None:
    journal, engine = FullJournal(full=False), ScriptedEngine()
    manager = await managed(engine, journal=journal)
    session, outbox = await played(manager, 2)
    engine.gate.clear()
    await session.interact("evt-a", "rain")
    await until(lambda: len(engine.ticks) == 3)
    journal.full = True
    engine.gate.set()
    ended = [output async for output in outbox][-1]
    assert isinstance(ended, Failed) and (ended.code, ended.retryable) == ("journal_unavailable", True)
    journal.full = False
    again = await session.resume(1)
    await until(lambda: session.info().chunk_index == 3)
    assert [chunk.started_event_ids for chunk in chunks_of(await drain(again))] == [("evt-a",)]
    await manager.stop()


async def test_a_fork_waits_for_the_commit_that_its_history_leads_to() -> None:
    journal, engine = FullJournal(full=False), ScriptedEngine()
    session = await (manager := await managed(engine, journal=journal)).create(S)
    await walk(session, 0, 1)
    engine.commits.clear()
    await session.submit(press(1, "a"))
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: session.audience.tape.since(0))
    journal.full = True
    engine.commits.set()
    await chunk
    journal.full = False
    await manager.fork("s", replace(S, session_id="fork"))
    woken = await (await managed(journal=journal)).awake("fork")
    assert await walk(woken, 2, 4) == (await undisturbed(4))[2:]


@pytest.mark.parametrize("again", [True, False])
async def test_a_reset_that_can_not_be_written_can_be_asked_for_again(again: bool) -> None:
    journal = FullJournal(full=False)
    manager = await managed(journal=journal)
    session = await manager.create(S)
    digests = await walk(session, 0, 2)
    await session.submit(press(2, "s"))
    journal.full = True
    with pytest.raises(JournalUnavailable):
        await session.reset(resume=True)
    journal.full = False
    assert session.info().state is SessionState.FAILED
    if again:
        assert (await session.reset(resume=True)).epoch == 1
        await session.submit(press(3, "w"))
        assert (await session.run_chunk()).media.digest == digests[0]
    await manager.stop()
    woken = (await (await managed(journal=journal)).awake("s")).info()
    at = (woken.epoch, woken.chunk_index, woken.pending_event_ids)
    assert at == ((1, 1, ()) if again else (0, 2, (2,)))
