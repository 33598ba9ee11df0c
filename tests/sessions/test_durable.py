"""Sessions outlive their engine, their server and their clients, and show what an undisturbed run shows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from session_fixtures import (
    SPEC,
    STEPPED,
    ManualClock,
    MemoryRecordings,
    MemorySnapshots,
    Mortal,
    ScriptedEngine,
    calm,
    keys,
    managed,
    until,
)

from engine.api import OpenWorld, Tick
from sessions import facts
from sessions.errors import (
    CapacityExceeded,
    ChunksGone,
    EngineUnavailable,
    EventIdConflict,
    JournalCorrupt,
    JournalUnavailable,
    NoSuchChunk,
    ReplayDiverged,
    SessionClosed,
    SessionFailed,
    SessionSuspended,
    TakenOver,
)
from sessions.events import Acceptance, Event
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Done, Evicted, Failed, InteractionQueued, Resumed, Rewound
from sessions.recordings import START, RecordedChunk
from sessions.session import Session
from sessions.snapshots import Point
from sessions.spec import Pacing
from sessions.sql_journal import SqlJournal
from sessions.state import SessionState

UNPACED = Pacing(to_media_time=False)
S = replace(STEPPED, session_id="s")


def press(event_id: int, *pressed: str) -> Event:
    return Event(event_id, None, (keys(*pressed),))


async def walk(session: Session, first: int, last: int) -> list[str]:
    """Chunks first..last-1, each with an event of its own; their digests."""
    digests = []
    for number in range(first, last):
        await session.submit(press(number, "wasd"[number % 4]))
        digests.append((await session.run_chunk()).media.digest)
    return digests


async def undisturbed(chunks: int) -> list[str]:
    return await walk(await (await managed()).create(S), 0, chunks)


async def drain(outbox: Outbox) -> list[Any]:
    """What waits now."""
    outputs: list[Any] = []

    async def read() -> None:
        async for output in outbox:
            outputs.append(output)

    reader = asyncio.create_task(read())
    await calm()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    return outputs


def chunks_of(outputs: list[Any]) -> list[ChunkOutput]:
    return [output for output in outputs if isinstance(output, ChunkOutput)]


# A worker that dies


async def test_a_chunk_whose_worker_dies_is_run_again_on_another_one() -> None:
    engine, clock, snapshots = Mortal(), ManualClock(), MemorySnapshots()
    manager = await managed(engine, clock=clock, snapshots=snapshots, limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    digests = await walk(session, 0, 5)
    engine.gate.clear()
    await session.submit(press(5, "a"))
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: len(engine.ticks) == 6)
    engine.die()
    engine.gate.set()
    await until(lambda: clock.next_alarm is not None)
    engine.come_back()
    clock.advance(1.0)
    digests.append((await chunk).media.digest)
    digests += await walk(session, 6, 8)
    assert digests == await undisturbed(8)
    assert [tick.chunk_index for tick in engine.ticks[6:8]] == [4, 5]  # one since the snapshot, and itself
    assert "restore" in engine.log


async def test_a_chunk_that_was_shown_is_not_shown_again_but_committed() -> None:
    engine, journal = Mortal(), MemoryJournal()
    manager = await managed(engine, journal=journal)
    session = await manager.create(replace(SPEC, session_id="s", pacing=UNPACED, num_frames=9 + 12 * 3))
    engine.commits.clear()
    outbox = session.play()
    await until(lambda: session._protocol.flight and session._protocol.flight.shown)
    engine.die()
    engine.come_back()
    engine.commits.set()
    outputs = [output async for output in outbox]
    assert [chunk.transport_index for chunk in chunks_of(outputs)] == [0, 1, 2, 3]
    assert outputs[-1] == Done(4, stopped=False)
    assert [chunk.transport_index for chunk in session.audience.tape.since(-1)] == [0, 1, 2, 3]
    begun = [r.fact for r in await journal.read(session.info().world) if isinstance(r.fact, facts.ChunkBegun)]
    assert len(begun) == 4


async def test_an_event_is_taken_while_the_engine_is_away() -> None:
    engine, clock = Mortal(), ManualClock()
    manager = await managed(engine, clock=clock)
    session = await manager.create(S)
    await session.run_chunk()
    engine.die()
    assert await session.submit(press(1, "w")) is Acceptance.ACCEPTED
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: clock.next_alarm is not None)
    engine.come_back()
    clock.advance(1.0)
    assert (await chunk).started_event_ids == ("1",)


async def test_a_world_that_is_lost_again_and_again_fails_its_session_with_the_reason() -> None:
    class Poisoned(Mortal):
        async def probe(self, tick: Tick) -> None:
            if "w" in tick.conditioning["camera"]["keys"]:
                self.die()
                self.come_back()
            await super().probe(tick)

    manager = await managed(Poisoned(), limits=Limits(revivals=2))
    session = await manager.create(S)
    await session.run_chunk()
    await session.submit(press(1, "w"))
    with pytest.raises(SessionFailed, match="lost 3 times in a row: no world"):
        await session.run_chunk()
    assert session.info().state is SessionState.FAILED
    await session.reset(resume=True)
    await session.run_chunk()


async def test_losses_with_chunks_between_them_are_no_reason_to_give_up() -> None:
    engine = Mortal()
    manager = await managed(engine, limits=Limits(revivals=1))
    session = await manager.create(S)
    digests: list[str] = []
    for number in range(4):
        digests += await walk(session, number, number + 1)
        engine.die()
        engine.come_back()
    assert digests == await undisturbed(4)


async def test_a_stream_commits_what_was_shown_before_its_engine_stayed_away() -> None:
    engine, clock = Mortal(), ManualClock()
    manager = await managed(engine, clock=clock, limits=Limits(revive_s=0.0))
    session = await manager.create(S)
    engine.commits.clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: session._protocol.flight and session._protocol.flight.shown)
    engine.die()
    engine.commits.set()
    with pytest.raises(EngineUnavailable):
        await chunk
    assert await session.cancel() is False
    engine.come_back()
    outbox = session.play()
    await session.interact("evt-a", "rain")
    await until(lambda: session.info().chunk_index == 2)
    assert [chunk.transport_index for chunk in chunks_of(await drain(outbox))] == [1]
    await manager.stop()


async def test_an_engine_that_stays_away_ends_the_stream_and_not_the_session() -> None:
    engine, clock = Mortal(), ManualClock()
    manager = await managed(engine, clock=clock, limits=Limits(revive_s=1.0))
    session = await manager.create(replace(S, session_id="s"))
    outbox = session.play()
    await session.interact("evt-0", "hail")
    await until(lambda: outbox.statistics().chunks == 1 and session.info().chunk_index == 1)
    engine.die()
    await session.interact("evt-a", "rain")
    for _ in range(40):
        await calm(5)
        if clock.next_alarm is not None:
            clock.advance(0.05)
    outputs = [output async for output in outbox]
    assert isinstance(outputs[-1], Failed)
    assert (outputs[-1].code, outputs[-1].retryable) == ("engine_unavailable", True)
    assert session.info().state is SessionState.SUSPENDED
    engine.come_back()
    assert (await session.run_chunk()).started_event_ids == ("evt-a",)


async def test_a_stopped_engine_is_not_waited_for() -> None:
    engine = ScriptedEngine()
    manager = await managed(engine)
    session = await manager.create(S)
    await engine.stop()
    with pytest.raises(EngineUnavailable):
        await session.run_chunk()


async def test_a_reset_needs_no_engine() -> None:
    engine = Mortal()
    manager = await managed(engine)
    session = await manager.create(replace(S, scene=None, image=b"PNG"))
    first = (await session.run_chunk()).media.digest
    engine.die()
    await session.reset(resume=True)
    engine.come_back()
    assert (await session.run_chunk()).media.digest == first
    assert engine.worlds[session.info().world].request.image == b"PNG"  # read back from the journal


# Suspending and waking


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


class Filling(MemoryJournal):
    """Can't be written while it is `full`."""

    full = False

    def append(self, world: str, expected: int, fact: facts.Fact, at: float) -> asyncio.Future[None]:
        if not self.full:
            return super().append(world, expected, fact, at)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written.set_exception(JournalUnavailable("database or disk is full"))
        return written


async def test_a_chunk_whose_tick_can_not_be_written_is_not_shown_and_the_session_goes_on() -> None:
    journal, engine = Filling(), ScriptedEngine()
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
    journal, engine, snapshots = Filling(), ScriptedEngine(), MemorySnapshots()
    manager = await managed(engine, journal=journal, snapshots=snapshots, limits=Limits(snapshot_every=1))
    session = await manager.create(S)
    world, digests = session.info().world, await walk(session, 0, 1)
    engine.commits.clear()
    await session.submit(press(1, "a"))
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: session._protocol.flight and session._protocol.flight.shown)
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
    journal, engine = Filling(), ScriptedEngine()
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


# Room


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


# Leaving and coming back


async def played(manager: SessionManager, chunks: int) -> tuple[Session, Outbox]:
    session = await manager.create(S)
    outbox = session.play()
    for number in range(chunks):
        await session.interact(f"evt-{number}", "rain")
        await until(lambda: session.info().chunk_index > number)  # noqa: B023
    await until(lambda: session.info().chunk_index == chunks)
    return session, outbox


async def test_who_comes_back_in_time_gets_what_was_missed_and_nothing_twice() -> None:
    clock = ManualClock()
    manager = await managed(clock=clock)
    session, outbox = await played(manager, 4)
    session.leave(outbox)
    clock.advance(29.0)
    outputs = await drain(await session.resume(1))
    assert outputs[0] == Resumed(2, 0, 4)
    assert [chunk.transport_index for chunk in chunks_of(outputs)] == [2, 3]
    clock.advance(60.0)
    await calm()
    assert session.info().state is SessionState.ACTIVE
    await manager.stop()


async def test_who_stays_away_leaves_a_suspended_session() -> None:
    clock = ManualClock()
    manager = await managed(clock=clock, recordings=MemoryRecordings())
    session, outbox = await played(manager, 4)
    session.leave(outbox)
    clock.advance(30.0)
    await until(lambda: session.info().state is SessionState.SUSPENDED and not manager.awake_count)
    woken = await manager.awake("s")
    outputs = await drain(await woken.resume(1))
    assert [chunk.transport_index for chunk in chunks_of(outputs)] == [2, 3]
    assert chunks_of(outputs)[0].started_event_ids == ("evt-2",)
    await manager.stop()


async def test_without_a_recording_missed_chunks_are_computed_again() -> None:
    clock, engine = ManualClock(), ScriptedEngine()
    manager = await managed(engine, clock=clock, snapshots=MemorySnapshots(), limits=Limits(snapshot_every=2))
    session, outbox = await played(manager, 4)
    first = [chunk.media.digest for chunk in chunks_of(await drain(outbox))]
    session.leave(outbox)
    clock.advance(30.0)
    await until(lambda: not manager.awake_count)
    woken = await manager.awake("s", replay_after=2)
    outputs = await drain(await woken.resume(2))
    assert [chunk.media.digest for chunk in chunks_of(outputs)] == first[3:]
    await manager.stop()


async def test_by_configuration_who_stays_away_leaves_a_closed_session() -> None:
    clock = ManualClock()
    manager = await managed(clock=clock, limits=Limits(suspends=False, grace_s=1.0))
    session, outbox = await played(manager, 2)
    session.leave(outbox)
    clock.advance(1.0)
    await until(lambda: session.info().state is SessionState.CLOSED)


async def test_the_newest_connection_takes_over_without_a_gap() -> None:
    clock = ManualClock()
    manager = await managed(clock=clock)
    session, outbox = await played(manager, 2)
    newer = await session.resume(0)
    gone = [output async for output in outbox][-1]
    assert isinstance(gone, Failed) and gone.code == "taken_over"
    session.leave(outbox)  # the older one ends after the newer one began
    clock.advance(60.0)
    await session.interact("evt-z", "snow")
    await until(lambda: session.info().chunk_index == 3)
    outputs = await drain(newer)
    assert [chunk.transport_index for chunk in chunks_of(outputs)] == [1, 2]
    assert InteractionQueued("evt-z") in outputs
    await manager.stop()


class SlowToRead(MemoryRecordings):
    """The first who reads waits for `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.readers = 0

    async def chunks(self, world: str, since: tuple[int, int] = START) -> AsyncIterator[RecordedChunk]:
        self.readers += 1
        if self.readers == 1:
            await self.go.wait()
        async for chunk in super().chunks(world, since):
            yield chunk


async def test_of_two_who_come_back_the_later_one_plays_whoever_is_ready_first() -> None:
    recordings = SlowToRead()
    manager = await managed(recordings=recordings, limits=Limits(tape_bytes=1))
    session, outbox = await played(manager, 4)
    session.leave(outbox)
    older = asyncio.create_task(session.resume(1))
    await until(lambda: recordings.readers == 1)
    newer = await session.resume(1)
    recordings.go.set()
    with pytest.raises(TakenOver):
        await older
    assert [chunk.transport_index for chunk in chunks_of(await drain(newer))] == [2, 3]
    assert newer.terminal is None
    await manager.stop()


async def test_what_was_never_sent_and_what_is_gone_is_refused() -> None:
    manager = await managed(limits=Limits(tape_bytes=1))
    session, _ = await played(manager, 4)
    with pytest.raises(NoSuchChunk, match="the last one sent is 3"):
        await session.resume(4)
    with pytest.raises(ChunksGone, match="resume with last_transport_chunk_index 3"):
        await session.resume(1)
    assert chunks_of(await drain(await session.resume(2)))
    await manager.stop()


async def test_a_watcher_sees_from_the_last_chunk_on_and_a_slow_one_is_dropped() -> None:
    manager = await managed(limits=Limits(watcher_bytes=3000))
    session, _ = await played(manager, 2)
    slow, quick = session.audience.attach(), session.audience.attach()
    seen = chunks_of(await drain(quick))
    for number in range(6):
        await session.interact(f"more-{number}", "snow")
        await until(lambda: session.info().chunk_index == 3 + number)  # noqa: B023
        seen += chunks_of(await drain(quick))
    assert [chunk.transport_index for chunk in seen] == list(range(1, 8))
    terminal = [output async for output in slow][-1]
    assert isinstance(terminal, Failed) and terminal.code == "watcher_too_slow"
    await session.close()
    assert (await drain(quick))[-1] == Done(0, stopped=True)


# Going back


async def test_a_rewound_session_repeats_what_followed_and_may_take_another_way() -> None:
    engine, journal = ScriptedEngine(), MemoryJournal()
    manager = await managed(
        engine, journal=journal, snapshots=MemorySnapshots(), limits=Limits(snapshot_every=2)
    )
    session = await manager.create(S)
    digests = await walk(session, 0, 6)
    assert await session.rewind(3) == Rewound(1, 3)
    info = session.info()
    assert (info.epoch, info.chunk_index, info.event_floor) == (1, 3, 6)
    await session.submit(press(6, "d"))  # as event 3 was
    again = await session.run_chunk()
    assert again.media.digest == digests[3]
    assert again.transport_index == 6
    await session.submit(press(7, "d"))
    other = (await session.run_chunk()).media.digest
    assert other != digests[4]
    await session.suspend("disconnected")
    woken = await manager.awake("s")
    await woken.rewind(4)
    await woken.submit(press(8, "d"))
    assert (await woken.run_chunk()).media.digest == other
    with pytest.raises(NoSuchChunk, match="to_chunk is 6: 5 chunks"):
        await woken.rewind(6)
    await woken.rewind(0)
    await woken.submit(press(9, "w"))
    assert (await woken.run_chunk()).media.digest == digests[0]


async def test_a_stream_goes_on_behind_a_rewind() -> None:
    manager = await managed()
    session = await manager.create(replace(SPEC, session_id="s", pacing=UNPACED, num_frames=9 + 12 * 5))
    outbox = session.play()
    seen: list[Any] = []
    async for output in outbox:
        seen.append(output)
        if isinstance(output, ChunkOutput) and output.transport_index == 3:
            await session.rewind(1)
    assert seen[-1].stopped is False
    at = seen.index(Rewound(1, 1))
    assert [chunk.tick.chunk_index for chunk in chunks_of(seen[at:])] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("at", [None, 2])
async def test_a_fork_shares_the_past_and_nothing_else(at: int | None) -> None:
    engine, journal = ScriptedEngine(), MemoryJournal()
    manager = await managed(engine, journal=journal)
    session = await manager.create(S)
    digests = await walk(session, 0, 4)
    fork = await manager.fork("s", replace(S, session_id="fork", owner="key-2"), at)
    begin = 4 if at is None else at
    info = fork.info()
    assert (info.epoch, info.chunk_index, info.spec.owner) == (0, begin, "key-2")
    assert ("fork" in engine.log) is (at is None)
    same, theirs = await walk(fork, begin, 6), await walk(session, 4, 6)
    assert digests[:begin] + same == digests + theirs == await undisturbed(6)
    await fork.submit(press(6, "wasd"))
    await session.submit(press(6, "w"))
    assert (await fork.run_chunk()).media.digest != (await session.run_chunk()).media.digest
    await session.close()
    woken = await (await managed(journal=journal)).awake("fork")  # its journal leads to the other's
    assert woken.info().chunk_index == 7
    await woken.rewind(1)
    assert (await walk(woken, 7, 8))[0] != ""
    nested = await managed(journal=journal)
    grandchild = await nested.fork("fork", replace(S, session_id="fork-2"), 1)
    assert grandchild.info().chunk_index == 1
    assert await walk(grandchild, 1, 3) == digests[1:3]


@pytest.mark.parametrize("at", [None, 4, 3])
async def test_what_was_shown_before_a_kill_is_in_a_fork(at: int | None) -> None:
    journal, engine = MemoryJournal(), ScriptedEngine()
    session = await (await managed(engine, journal=journal)).create(S)
    await walk(session, 0, 3)
    await session.submit(press(3, "d"))
    engine.commits.clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: session.audience.tape.since(2))
    after = await managed(journal=journal)
    fork = await after.fork("s", replace(S, session_id="fork"), at)
    begin = 4 if at is None else at
    assert fork.info().chunk_index == begin
    assert await walk(fork, begin, 6) == (await undisturbed(6))[begin:]
    chunk.cancel()
    await asyncio.gather(chunk, return_exceptions=True)


async def test_a_fork_waits_for_the_commit_that_its_history_leads_to() -> None:
    journal, engine = Filling(), ScriptedEngine()
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


async def test_a_fork_of_what_never_was_is_refused() -> None:
    manager = await managed()
    await walk(await manager.create(S), 0, 2)
    with pytest.raises(NoSuchChunk, match="at_chunk is 3: 2 chunks"):
        await manager.fork("s", replace(S, session_id="fork"), 3)
    assert [info.session_id for info in await manager.list()] == ["s"]


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
    suspending = asyncio.create_task(session.suspend("disconnected"))
    await calm()
    closing = asyncio.create_task(manager.close("s"))
    await calm()
    engine.closes.set()
    await asyncio.gather(suspending, closing)
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


async def managed_with_one(journal: MemoryJournal) -> None:
    """A server that is gone."""
    await (await managed(journal=journal)).create(S)


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
