"""Snapshots of a session that goes on: nobody waits for one, and each is kept under its own point."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from memory_stores import MemorySnapshots
from scripted_engine import Mortal
from session_fixtures import S, calm, managed, until
from walks import undisturbed, walk

from engine.api import WorldSnapshot
from sessions.checkpoint import decode_checkpoint
from sessions.limits import Limits
from sessions.session import Session
from sessions.snapshots import Point
from sessions.state import SessionState


class SlowPacking(Mortal):
    """A snapshot is of when it was asked for, and comes once that point is among the `packed`."""

    def __init__(self) -> None:
        super().__init__()
        self.packed = {chunks: asyncio.Event() for chunks in range(9)}

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        snapshot = await super().snapshot_world(world)
        await self.packed[snapshot.chunks].wait()
        return snapshot


async def slow_walk(chunks: int) -> tuple[SlowPacking, MemorySnapshots, Session, list[str]]:
    """A session after so many chunks, with a snapshot due behind every second one; and their digests."""
    engine, snapshots = SlowPacking(), MemorySnapshots()
    manager = await managed(engine, snapshots=snapshots, limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    async with asyncio.timeout(10):
        return engine, snapshots, session, await walk(session, 0, chunks)


async def test_the_next_chunks_do_not_wait_for_a_snapshot_and_are_not_in_it() -> None:
    engine, snapshots, session, digests = await slow_walk(5)
    assert snapshots.data == {}
    engine.packed[2].set()
    key = session.info().world, Point(0, 2)
    await until(lambda: key in snapshots.data)
    assert list(snapshots.data) == [key], "while one is taken, no other is"
    kept = decode_checkpoint(snapshots.sessions[key])
    assert (kept.point, kept.transport_index, kept.standing.chunk_index) == (Point(0, 2), 2, 2)
    engine.die()
    engine.come_back()
    digests += await walk(session, 5, 7)
    assert digests == await undisturbed(7)
    assert engine.log.count("restore") == 1
    assert [tick.chunk_index for tick in engine.ticks[5:]] == [2, 3, 4, 5, 6]


async def test_a_session_that_is_put_away_waits_for_its_snapshots() -> None:
    engine, snapshots, session, _ = await slow_walk(3)
    suspending = asyncio.create_task(session.suspend("disconnected"))
    engine.packed[3].set()
    await calm()
    assert snapshots.data == {} and not suspending.done()
    engine.packed[2].set()
    await suspending
    assert [point for _, point in snapshots.data] == [Point(0, 2), Point(0, 3)]
    assert engine.log[-1] == "close"


async def test_who_gives_up_waiting_for_a_snapshot_does_not_stop_it() -> None:
    engine, snapshots, session, _ = await slow_walk(2)
    evicting = asyncio.create_task(session.evict())
    await calm()
    evicting.cancel()
    await asyncio.wait([evicting])
    engine.packed[2].set()
    await session.suspend("disconnected")
    assert [point for _, point in snapshots.data] == [Point(0, 2)]
    assert session.info().state is SessionState.SUSPENDED


async def test_a_snapshot_that_breaks_leaves_the_session_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemorySnapshots):
        async def save(self, world: str, point: Point, data: bytes, session: bytes = b"") -> None:
            raise KeyError("a bug")

    manager = await managed(Mortal(), snapshots=Broken(), limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    digests = await walk(session, 0, 3)
    assert await session.evict()
    digests += await walk(session, 3, 5)
    assert digests == await undisturbed(5)
    await session.close()
    assert "after 2 chunks broke" in caplog.text and "a bug" in caplog.text
    await manager.stop()


async def test_a_snapshot_of_another_point_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Hasty(Mortal):
        async def snapshot_world(self, world: str) -> WorldSnapshot:
            snapshot = await super().snapshot_world(world)
            return replace(snapshot, chunks=snapshot.chunks + 1)

    snapshots = MemorySnapshots()
    manager = await managed(Hasty(), snapshots=snapshots, limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    await walk(session, 0, 3)
    await manager.stop()
    assert snapshots.data == {}
    assert "after 2 chunks: the engine's snapshot has 3 chunks, not 2" in caplog.text
