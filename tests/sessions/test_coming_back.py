"""Who comes back gets what was missed, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from manual_clock import ManualClock
from memory_stores import MemoryRecordings, MemorySnapshots
from scripted_engine import ScriptedEngine
from session_fixtures import calm, managed, until
from walks import chunks_of, drain, played

from sessions.errors import ChunksGone, NoSuchChunk, TakenOver
from sessions.limits import Limits
from sessions.outputs import Done, Failed, InteractionQueued, Resumed
from sessions.recordings import START, RecordedChunk
from sessions.state import SessionState


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
