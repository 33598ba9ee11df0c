"""A pattern's worlds go on from their snapshots and forks, in either engine."""

from __future__ import annotations

import pytest
from pattern_steps import STILL, TURN, Start, play, request, started, tick

from engine.api import EncodedChunk, SnapshotRefused, UnknownWorld
from engine.pattern.engine import PatternEngine
from engine.pattern.host import PatternHost
from engine.worker.local import LocalEngine

PATHS = (TURN, STILL, ({"keys": ("w", "k")},) * 3, TURN, ({"keys": ("s",)},) * 3)


async def hosted() -> LocalEngine:
    local = LocalEngine(PatternHost(8, 0.0))
    await local.start()
    await local.open_world(request())
    return local


async def walked(
    engine: PatternEngine | LocalEngine, first: int, end: int, world: str = "w"
) -> list[EncodedChunk]:
    return [await play(engine, tick(index, PATHS[index], world=world)) for index in range(first, end)]


@pytest.mark.parametrize("start", [started, hosted])
@pytest.mark.parametrize("chunks", range(len(PATHS)))
async def test_a_restored_world_goes_on_byte_for_byte(start: Start, chunks: int) -> None:
    engine = await start()
    before = await walked(engine, 0, chunks)
    snapshot = await engine.snapshot_world("w")
    after = await walked(engine, chunks, len(PATHS))
    assert snapshot.chunks == chunks
    await engine.restore_world(request("again"), snapshot.data)
    assert await walked(engine, chunks, len(PATHS), "again") == after
    await engine.reset_world("again")
    assert await walked(engine, 0, chunks, "again") == before
    await engine.stop()


@pytest.mark.parametrize("start", [started, hosted])
async def test_a_fork_diverges_and_its_source_goes_on(start: Start) -> None:
    engine = await start()
    await engine.open_world(request("calm"))
    undisturbed = await walked(engine, 0, 5, "calm")
    await walked(engine, 0, 2)
    await engine.fork_world("w", request("fork"))
    away = await play(engine, tick(2, TURN, world="fork"))
    assert away.digest != undisturbed[2].digest
    assert await walked(engine, 2, 5) == undisturbed[2:]
    with pytest.raises(SnapshotRefused, match="seed is 7, expected 8"):
        await engine.fork_world("w", request("other", seed=8))
    with pytest.raises(UnknownWorld):
        await engine.fork_world("nobody", request("other"))
    assert engine.status().worlds == 3
    await engine.stop()


@pytest.mark.parametrize("start", [started, hosted])
async def test_a_damaged_or_foreign_snapshot_is_refused(start: Start) -> None:
    engine = await start()
    await walked(engine, 0, 2)
    data = (await engine.snapshot_world("w")).data
    for damaged in (b"", data[:-1], data[: len(data) // 2], data + b" ", data[:-20] + b"!" + data[-19:]):
        with pytest.raises(SnapshotRefused):
            await engine.restore_world(request("x"), damaged)
    with pytest.raises(SnapshotRefused, match="scene is 'city', expected 'plain'"):
        await engine.restore_world(request("x", scene="plain"), data)
    with pytest.raises(SnapshotRefused, match="width is 96, expected 112"):
        await engine.restore_world(request("x", width=112), data)
    assert engine.status().worlds == 1
    await engine.stop()
