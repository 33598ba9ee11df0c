"""A world of the real model outlives its worker process, and may be forked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from small_checkpoint import request, write_checkpoint

from engine.api import (
    CapacityReached,
    ChunkCommitted,
    ChunkReady,
    EncodedChunk,
    Engine,
    SnapshotRefused,
    Tick,
    WorldRefused,
)
from engine.native import make_host
from engine.worker.local import LocalEngine
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine

WALK = ({"keys": ("w",)},) * 3
TURN = ({"keys": ("l", "k")},) * 3
MOTIONS = (WALK, TURN, TURN, WALK, TURN, WALK)
PROMPTS = ("a meadow", "a meadow", "a desert", "a desert", "a meadow", "a desert")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small"))


@asynccontextmanager
async def local(checkpoint: Path, **options: int) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(make_host(str(checkpoint), 1, **options))  # type: ignore[arg-type]
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@asynccontextmanager
async def process(checkpoint: Path) -> AsyncIterator[ProcessEngine]:
    boot = Boot("engine.native:make_host", {"model": str(checkpoint), "threads": 1})
    engine = ProcessEngine(boot, {"OMP_NUM_THREADS": "1"})
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


async def walk(engine: Engine, world: str, first: int = 0, end: int = len(MOTIONS)) -> list[EncodedChunk]:
    media = []
    for index in range(first, end):
        conditioning = {"camera": MOTIONS[index]}
        asked = Tick("s", world, 0, f"r{index}", index, (), PROMPTS[index], (), conditioning)  # type: ignore[arg-type]
        ready, committed = [answer async for answer in engine.run_chunk(asked)]
        assert isinstance(ready, ChunkReady) and isinstance(committed, ChunkCommitted)
        media.append(ready.media)
    return media


@pytest.mark.parametrize("share_bytes", [0, 2**24])
@pytest.mark.parametrize("chunks", range(len(MOTIONS)))
async def test_a_revived_world_goes_on_byte_for_byte(checkpoint: Path, chunks: int, share_bytes: int) -> None:
    async with local(checkpoint, share_bytes=share_bytes) as engine:
        await engine.open_world(request())
        before = await walk(engine, "w", 0, chunks)
        snapshot = await engine.snapshot_world("w")
        after = await walk(engine, "w", chunks)
        assert snapshot.chunks == chunks
        await engine.restore_world(request("again"), snapshot.data)
        assert await walk(engine, "again", chunks) == after
        await engine.reset_world("again")
        assert await walk(engine, "again") == before + after


async def test_a_world_moves_to_another_process(checkpoint: Path) -> None:
    async with local(checkpoint) as engine:
        await engine.open_world(request())
        await walk(engine, "w", 0, 4)
        snapshot = await engine.snapshot_world("w")
        undisturbed = await walk(engine, "w", 4)
    async with process(checkpoint) as other:
        await other.restore_world(request(), snapshot.data)
        assert await walk(other, "w", 4) == undisturbed


@pytest.mark.parametrize("share_bytes", [0, 2**24])
async def test_a_fork_goes_its_own_way_and_its_source_stays(checkpoint: Path, share_bytes: int) -> None:
    async with local(checkpoint, share_bytes=share_bytes) as engine:
        await engine.open_world(request("calm"))
        undisturbed = await walk(engine, "calm")
        await engine.open_world(request())
        await walk(engine, "w", 0, 4)
        await engine.fork_world("w", request("same"))
        await engine.fork_world("w", request("away"))
        swapped = Tick("s", "away", 0, "r", 4, (), "a desert", (), {"camera": WALK})  # type: ignore[dict-item]
        [ready, _] = [answer async for answer in engine.run_chunk(swapped)]
        assert isinstance(ready, ChunkReady) and ready.media.digest != undisturbed[4].digest
        await engine.close_world("away")
        assert await walk(engine, "w", 4) == undisturbed[4:] == await walk(engine, "same", 4)


async def test_what_can_not_be_restored_leaves_no_world(checkpoint: Path) -> None:
    async with local(checkpoint, max_worlds=2) as engine:
        await engine.open_world(request())
        await walk(engine, "w", 0, 2)
        data = (await engine.snapshot_world("w")).data
        for damaged in (b"", data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1])):
            with pytest.raises(SnapshotRefused):
                await engine.restore_world(request("x"), damaged)
        with pytest.raises(SnapshotRefused, match="image"):
            await engine.restore_world(request("x", scene="desert"), data)
        with pytest.raises(SnapshotRefused, match="seed is 3, expected 9"):
            await engine.fork_world("w", request("x", seed=9))
        with pytest.raises(WorldRefused, match="sea"):
            await engine.restore_world(request("x", scene="sea"), data)
        assert engine.status().pages_in_use * 2 == engine.status().pages_total
        await engine.restore_world(request("x"), data)
        with pytest.raises(CapacityReached):
            await engine.fork_world("w", request("y"))


async def test_a_snapshot_of_another_checkpoint_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    async with local(checkpoint) as engine:
        await engine.open_world(request())
        data = (await engine.snapshot_world("w")).data
    other = write_checkpoint(tmp_path)
    (other / "model_index.json").write_text((other / "model_index.json").read_text() + "\n")
    async with local(other) as engine:
        with pytest.raises(SnapshotRefused, match="model revision"):
            await engine.restore_world(request(), data)
