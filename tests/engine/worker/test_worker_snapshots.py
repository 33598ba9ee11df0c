"""Worlds are copied, restored and forked in turn with their chunks, and packed while the device goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from loop_steps import computed, engine, reached
from scripted_host import Record, request, tick

from engine.api import (
    CapacityReached,
    ChunkCommitted,
    EngineError,
    EngineLost,
    SnapshotRefused,
    UnknownWorld,
    WorldRefused,
)
from engine.worker.local import LocalEngine
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine


async def play(engine: LocalEngine | ProcessEngine, world: str, index: int) -> str:
    """The digest of a chunk that is run to its end."""
    ready, committed = [answer async for answer in engine.run_chunk(tick(world, index))]
    assert isinstance(committed, ChunkCommitted)
    return ready.media.digest  # type: ignore[union-attr]


async def walk(engine: LocalEngine | ProcessEngine, world: str, first: int, end: int) -> list[str]:
    return [await play(engine, world, index) for index in range(first, end)]


async def test_a_restored_world_goes_on_as_the_undisturbed_one() -> None:
    async with engine(None, "w", "calm") as local:
        await walk(local, "w", 0, 3)
        snapshot = await local.snapshot_world("w")
        assert (snapshot.world, snapshot.chunks) == ("w", 3)
        await local.close_world("w")
        await local.restore_world(request("w"), snapshot.data)
        assert await walk(local, "w", 3, 6) == (await walk(local, "calm", 0, 6))[3:]
        assert local.status().worlds == 2


async def test_a_worker_process_restores_and_forks() -> None:
    process = ProcessEngine(Boot("scripted_host:process_host"), {"OMP_NUM_THREADS": "1"})
    try:
        await process.start()
        await process.open_world(request("w"))
        await walk(process, "w", 0, 2)
        await process.fork_world("w", request("fork"))
        snapshot = await process.snapshot_world("w")
        rest = await walk(process, "w", 2, 4)
        await process.restore_world(request("revived"), snapshot.data)
        assert await walk(process, "fork", 2, 4) == rest == await walk(process, "revived", 2, 4)
        with pytest.raises(SnapshotRefused, match="damaged"):
            await process.restore_world(request("x"), b"?")
        assert process.status().worlds == 3
    finally:
        await process.stop()


async def test_a_snapshot_waits_for_the_chunk_in_flight() -> None:
    record = Record()
    reached_it, go = record.hold("probe", "w")
    async with engine(record, "w") as local:
        chunk = asyncio.create_task(play(local, "w", 0))
        await reached(reached_it)
        snapshot = asyncio.create_task(local.snapshot_world("w"))
        go.set()
        assert (await snapshot).chunks == 1 and chunk.done()


async def test_the_device_goes_on_while_a_snapshot_is_packed() -> None:
    record = Record()
    packing, go = record.hold("pack", "w")
    async with engine(record, "w", "other") as local:
        await play(local, "w", 0)
        snapshot = asyncio.create_task(local.snapshot_world("w"))
        await reached(packing)
        await local.reset_world("w")  # the copy is not touched by it
        await local.open_world(request("third"))
        assert not snapshot.done()
        go.set()
        assert (await snapshot).chunks == 1


async def test_a_chunk_asked_for_behind_a_snapshot_does_not_wait_and_is_not_in_it() -> None:
    record = Record()
    reached_it, go = record.hold("probe", "w")
    packing, packed = record.hold("pack", "w")
    async with engine(record, "w") as local:
        first = asyncio.create_task(play(local, "w", 0))
        await reached(reached_it)
        snapshot = asyncio.create_task(local.snapshot_world("w"))
        await asyncio.sleep(0)  # it is asked for
        second = asyncio.create_task(play(local, "w", 1))
        go.set()
        await first
        await reached(packing)
        await computed(record, "w", 1)
        assert not snapshot.done()
        packed.set()
        await second
        assert (await snapshot).chunks == 1


async def test_a_fork_diverges_and_leaves_its_source_alone() -> None:
    async with engine(None, "w", "calm") as local:
        await walk(local, "w", 0, 2)
        await local.fork_world("w", request("fork"))
        await walk(local, "fork", 2, 5)
        await local.close_world("fork")
        assert await walk(local, "w", 2, 4) == (await walk(local, "calm", 0, 4))[2:]


async def test_a_fork_waits_for_the_chunk_in_flight_of_its_source() -> None:
    record = Record()
    reached_it, go = record.hold("probe", "w")
    async with engine(record, "w") as local:
        chunk = asyncio.create_task(play(local, "w", 0))
        await reached(reached_it)
        fork = asyncio.create_task(local.fork_world("w", request("fork")))
        go.set()
        await fork
        await chunk
        await play(local, "fork", 1)


async def test_a_fork_that_nobody_waits_for_is_closed() -> None:
    record = Record()
    reached_it, go = record.hold("probe", "w")
    async with engine(record, "w") as local:
        chunk = asyncio.create_task(play(local, "w", 0))
        await reached(reached_it)
        fork = asyncio.create_task(local.fork_world("w", request("fork")))
        await asyncio.sleep(0)  # it has been asked for
        fork.cancel()
        go.set()
        await chunk
        await until_closed(record, "fork")
        await local.open_world(request("fork"))
        assert local.status().worlds == 2


async def test_a_restored_world_that_nobody_waits_for_is_closed() -> None:
    record = Record()
    async with engine(record, "w") as local:
        snapshot = await local.snapshot_world("w")
        reached_it, go = record.hold("open", "late")
        restoring = asyncio.create_task(local.restore_world(request("late"), snapshot.data))
        await reached(reached_it)
        restoring.cancel()
        go.set()
        await until_closed(record, "late")


async def test_errors_of_copying_say_what_happened() -> None:
    record = Record()
    async with engine(record, "w", capacity=2) as local:
        record.fail("snapshot", "w", RuntimeError("no memory"))
        await raises(EngineError, "could not be copied: RuntimeError: no memory", local.snapshot_world("w"))
        record.fail("pack", "w", RuntimeError("no memory"))
        await raises(EngineError, "could not be packed: RuntimeError: no memory", local.snapshot_world("w"))
        await raises(UnknownWorld, "no world x", local.snapshot_world("x"))
        await raises(UnknownWorld, "no world x", local.fork_world("x", request("y")))
        await raises(SnapshotRefused, "damaged", local.restore_world(request("y"), b"?"))
        await raises(WorldRefused, "open already", local.fork_world("w", request("w")))
        data = (await local.snapshot_world("w")).data
        await local.restore_world(request("y"), data)
        await raises(CapacityReached, "taken", local.restore_world(request("z"), data))
        await raises(CapacityReached, "taken", local.fork_world("w", request("z")))
        await play(local, "w", 0)
        assert local.status().worlds == 2


async def test_a_snapshot_that_takes_too_long_says_what_is_pending() -> None:
    record = Record()
    reached_it, go = record.hold("probe", "w")
    async with engine(record, "w", timeout_s=0.05) as local:
        chunk = asyncio.create_task(play(local, "w", 0))
        await reached(reached_it)
        await raises(EngineError, "snapshot of world w took more than .* chunk 0", local.snapshot_world("w"))
        go.set()
        await chunk


async def test_a_stopped_engine_copies_nothing() -> None:
    async with engine(None, "w") as local:
        await local.stop()
        await raises(EngineLost, "stopped", local.snapshot_world("w"))
        await raises(EngineLost, "stopped", local.fork_world("w", request("x")))


async def raises(kind: type[EngineError], words: str, call: Awaitable[object]) -> None:
    with pytest.raises(kind, match=words) as caught:
        await call
    assert type(caught.value) is kind


async def until_closed(record: Record, world: str) -> None:
    async with asyncio.timeout(30):
        while not any(event[:2] == ("close", world) for event in record.events):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
