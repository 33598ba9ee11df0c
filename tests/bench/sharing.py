"""A shared first chunk against a cold one: from the tick to the encoded frames, through the worker's loop.

python -m tests.bench.sharing [CHECKPOINT]
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

from engine.api import ChunkReady, OpenWorld, Tick
from engine.native import make_host
from engine.worker.local import LocalEngine

PAIRS = 7
ROOM = 256 * 2**20


async def first_chunk(
    engine: LocalEngine, scene: str, size: tuple[int, int], name: str, seed: int
) -> tuple[float, float, str]:
    """Seconds to the pixels, to the commit, and the frames' digest."""
    await engine.open_world(OpenWorld(name, "a place", *size, 16, seed, scene=scene))
    began = time.perf_counter()
    pixels, digest = 0.0, ""
    async for answer in engine.run_chunk(Tick("s", name, 0, name, 0, (), "a place")):
        if isinstance(answer, ChunkReady):
            pixels, digest = time.perf_counter() - began, answer.media.digest
    committed = time.perf_counter() - began
    await engine.close_world(name)
    return pixels, committed, digest


async def measure(checkpoint: str) -> dict[str, object]:
    """Cold and shared in turn, each pair of another seed; the first pair is discarded."""
    engine = LocalEngine(make_host(checkpoint, 1, share_bytes=ROOM))
    card = await engine.start()
    size, scene = (card.width, card.height), card.scenes[0].name
    cold, shared = [], []
    for seed in range(PAIRS + 1):
        miss = await first_chunk(engine, scene, size, f"cold {seed}", seed)
        hit = await first_chunk(engine, scene, size, f"shared {seed}", seed)
        assert miss[2] == hit[2], "a shared chunk shows other frames"
        cold.append(miss)
        shared.append(hit)
    await engine.stop()
    cold_ms, shared_ms = (statistics.median(row[0] for row in rows[1:]) * 1000 for rows in (cold, shared))
    whole = [statistics.median(row[1] for row in rows[1:]) * 1000 for rows in (cold, shared)]
    return {
        "bench": "sharing",
        "model": card.name,
        "size": list(size),
        "threads": 1,
        "cold_ms": round(cold_ms, 3),
        "shared_ms": round(shared_ms, 3),
        "ratio": round(shared_ms / cold_ms, 4),
        "with_commit_ratio": round(whole[1] / whole[0], 4),
    }


def main() -> None:
    """One JSON line."""
    checkpoint = sys.argv[1] if len(sys.argv) > 1 else "tiny"
    sys.stdout.write(json.dumps(asyncio.run(measure(checkpoint))) + "\n")


if __name__ == "__main__":
    main()
