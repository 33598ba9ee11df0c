"""How soon an input shows: from sending it to the last byte of the first chunk that names it, paced.

At worst an input waits for the chunk that began just before it, one chunk of media time, and then for its own
chunk to be computed. `beyond_compute` is the latency without the compute time of the chunk that shows it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time

from app.client import Chunk, Client, Stream
from tests.bench._server import served

INPUTS = 60
SEED = 1
KEYS = ("w", "a", "s", "d", "i", "j", "k", "l")
STAGES = ("queue", "denoise", "decode", "encode")


async def press(stream: Stream, sent: dict[str, float], dice: random.Random) -> None:
    """Inputs at random moments."""
    for number in range(INPUTS):
        await asyncio.sleep(dice.uniform(0.1, 1.1))
        sent[name := f"key {number}"] = time.perf_counter()
        await stream.keys(KEYS[number % len(KEYS)], event_id=name)


async def measure(url: str) -> list[tuple[float, float]]:
    """Latency and compute time in seconds, for each input."""
    sent: dict[str, float] = {}
    found: list[tuple[float, float]] = []
    async with Client(url) as client, client.stream(prompt="a meadow", seed=SEED) as stream:
        for _ in range(8):  # the view is full, and allocators have settled
            await stream.chunk()
        pressing = asyncio.create_task(press(stream, sent, random.Random(SEED)))
        while len(found) < INPUTS:
            chunk = await stream.chunk()
            found += shown(chunk, sent)
        await pressing
    return found


def shown(chunk: Chunk, sent: dict[str, float]) -> list[tuple[float, float]]:
    """The inputs that this chunk is the first to show."""
    timing = chunk.metadata["timing"]
    compute = sum(timing[f"{stage}_ms"] for stage in STAGES) / 1000
    return [(chunk.arrived - sent[name], compute) for name in chunk.metadata["started_event_ids"]]


def main(engine: str = "native") -> None:
    """Print one JSON line."""
    with served(engine) as url:
        found = asyncio.run(measure(url))
    media = 12 / 16
    latency = statistics.quantiles([each for each, _ in found], n=20)
    compute = statistics.quantiles([compute for _, compute in found], n=20)
    beyond = statistics.quantiles([each - compute for each, compute in found], n=20)
    figures = {
        "bench": "control_latency",
        "engine": engine,
        "p50_ms": round(latency[9] * 1000, 1),
        "p95_ms": round(latency[-1] * 1000, 1),
        "compute_p50_ms": round(compute[9] * 1000, 1),
        "compute_p95_ms": round(compute[-1] * 1000, 1),
        "beyond_compute_p95_ms": round(beyond[-1] * 1000, 1),
        "target_beyond_compute_ms": media * 1000,
        "inputs": len(found),
        "seed": SEED,
        "ok": beyond[-1] <= media,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="native", choices=("native", "pattern"))
    main(parser.parse_args().engine)
