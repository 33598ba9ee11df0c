"""Cancellations, successors and a very long session, on the real classes at a minimal size."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch
from growth import LIMIT, resident, scales
from numpy.typing import NDArray
from small_checkpoint import write_checkpoint

from engine.api import (
    ChunkCancelled,
    ChunkCommitted,
    ChunkReady,
    OpenWorld,
    Tick,
)
from engine.native import make_host
from engine.native.host import NativeHost
from engine.worker.local import LocalEngine

torch.set_num_threads(1)

SIDE = 16  # pixels: one token per latent frame
WALK = ({"keys": ("w",)},) * 3
TURN = ({"keys": ("l",)},) * 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small"))


@asynccontextmanager
async def serving(checkpoint: Path) -> AsyncIterator[tuple[LocalEngine, NativeHost]]:
    host = make_host(str(checkpoint), 1, max_worlds=4)
    engine = LocalEngine(host)
    await engine.start()
    try:
        yield engine, host
    finally:
        await engine.stop()


def request(world: str, seed: int) -> OpenWorld:
    return OpenWorld(world, "a meadow", SIDE, SIDE, 16, seed, scene="meadow")


def tick(world: str, index: int, motions: object = WALK) -> Tick:
    return Tick("s", world, 0, f"r{index}", index, (), "a meadow", (), {"camera": motions})  # type: ignore[dict-item]


async def play(engine: LocalEngine, world: str, indices: Sequence[int]) -> list[str]:
    """The digests of the chunks' pixels."""
    digests = []
    for index in indices:
        async for answer in engine.run_chunk(tick(world, index)):
            if isinstance(answer, ChunkReady):
                digests.append(answer.media.digest)
            else:
                assert isinstance(answer, ChunkCommitted)
    return digests


async def cancelled_chunk(engine: LocalEngine, world: str, index: int) -> bool:
    """Begin a chunk and cancel it; whether the cancel came in time."""
    answers = engine.run_chunk(tick(world, index, TURN))
    running = asyncio.ensure_future(anext(answers))
    await asyncio.sleep(0)
    await engine.cancel_chunk(world)
    try:
        await running
    except ChunkCancelled:
        return True
    async for _ in answers:
        pass
    return False


@pytest.mark.parametrize("rounds", scales(4, 60))
@pytest.mark.timeout(1800)
async def test_after_a_cancellation_a_successor_s_world_is_as_if_nobody_had_been_there(
    checkpoint: Path, rounds: int
) -> None:
    """Half before the first chunk, half after it; half of them overlapped by the successor."""
    async with serving(checkpoint) as (engine, host):
        caches = host._caches
        assert caches is not None
        calm: dict[int, list[str]] = {}
        for seed in range(3):
            await engine.open_world(request(f"calm {seed}", seed))
            calm[seed] = await play(engine, f"calm {seed}", range(3))
            await engine.close_world(f"calm {seed}")
        in_time, warm = 0, 0
        for number in range(rounds):
            first, overlapped = (0 if number % 2 else 1), bool(number % 4 // 2)
            victim, successor, seed = f"victim {number}", f"successor {number}", number % 3
            await engine.open_world(request(victim, 90 + number))
            await play(engine, victim, range(first))
            if overlapped:
                cancel = asyncio.ensure_future(cancelled_chunk(engine, victim, first))
                await engine.open_world(request(successor, seed))
                digests, came, _ = await asyncio.gather(
                    play(engine, successor, range(3)), cancel, engine.close_world(victim)
                )
            else:
                came = await cancelled_chunk(engine, victim, first)
                await engine.close_world(victim)
                await engine.open_world(request(successor, seed))
                digests = await play(engine, successor, range(3))
            in_time += came
            assert digests == calm[seed], f"round {number}"
            await engine.close_world(successor)
            assert caches.ledger.live_bytes == caches.memory.live_bytes == caches.memory.allocations == 0
            assert caches.ledger.live.owners == {}
            assert caches.ledger.is_consistent()
            if number == rounds // 6:
                warm = resident()
        assert in_time == rounds
        assert resident() - warm < LIMIT


@pytest.fixture
def host(checkpoint: Path) -> Iterator[NativeHost]:
    host = make_host(str(checkpoint), 1)
    host.load()
    yield host
    assert host._caches is not None
    assert host._caches.memory.live_bytes == 0


@pytest.mark.parametrize("chunks", scales(250, 10_000))
@pytest.mark.timeout(1800)
def test_a_very_long_session_takes_no_more_memory_and_keeps_its_indices(
    host: NativeHost, chunks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    caches = host._caches
    assert caches is not None
    world = host.open(request("long", 3))
    weight = caches.memory.live_bytes
    seconds, warm = [], 0
    for index in range(chunks):
        began = time.process_time()
        chunk = world.begin_chunk(tick("long", index, (WALK, TURN)[index % 2]))
        for _ in chunk.forwards():
            pass
        frames: NDArray[np.uint8] = chunk.decode()
        chunk.write()
        world.commit()
        seconds.append(time.process_time() - began)
        assert frames.shape == (9 if index == 0 else 12, SIDE, SIDE, 3)
        assert world.chunks == index + 1
        assert world.world.caches.view.frames == 3 * (index + 1)
        if index == 100:
            warm, weight = resident(), caches.memory.live_bytes
            assert caches.ledger.is_consistent()
    grown = resident() - warm
    early, late = median(seconds[100:200]), median(seconds[-100:])
    figure = {
        "stress": "long session",
        "chunks": chunks,
        "grown_bytes": grown,
        "early_cpu_ms": round(early * 1000, 3),
        "late_cpu_ms": round(late * 1000, 3),
        "late_to_early": round(late / early, 3),
    }
    with capsys.disabled():
        sys.stdout.write("\n" + json.dumps(figure) + "\n")
    assert caches.memory.live_bytes == caches.ledger.live_bytes == weight
    assert caches.ledger.is_consistent()
    assert len(caches.ledger.facts("long")) < 100
    assert grown < LIMIT
    world.close()
