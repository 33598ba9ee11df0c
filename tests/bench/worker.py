"""What the worker process adds to a chunk: its time minus queue, denoise, decode, and encode or commit.

Those two run side by side; the longer one counts.

The model is a test pattern that takes no time of its own; the chunk crosses the border whole.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

from engine.api import ChunkReady, OpenWorld, Tick
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine

CHUNKS = 60


async def measure() -> tuple[list[float], list[float]]:
    """Overheads and whole chunk times, in milliseconds."""
    engine = ProcessEngine(Boot("engine.pattern.host:pattern_host"))
    await engine.start()
    await engine.open_world(OpenWorld("w", "p", 96, 64, 16, 0, scene="city"))
    overheads, wholes = [], []
    for index in range(CHUNKS):
        tick = Tick("s", "w", 0, f"r{index}", index, (), "p")
        began = time.perf_counter()
        async for answer in engine.run_chunk(tick):
            if isinstance(answer, ChunkReady):
                times = answer.times
                stages = times.queue_ms + times.denoise_ms + times.decode_ms
            else:
                stages += max(times.encode_ms, answer.commit_ms)
        whole = (time.perf_counter() - began) * 1000
        wholes.append(whole)
        overheads.append(whole - stages)
    await engine.stop()
    return overheads[1:], wholes[1:]


def main() -> None:
    """One JSON line."""
    overheads, wholes = asyncio.run(measure())
    figures = {
        "bench": "worker",
        "chunks": len(wholes),
        "overhead_ms": round(statistics.median(overheads), 3),
        "overhead_max_ms": round(max(overheads), 3),
        "chunk_ms": round(statistics.median(wholes), 3),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
