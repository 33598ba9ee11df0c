"""What the service adds to a chunk: a continuous session over a real socket, as fast as it goes.

The time of a chunk runs from the last byte of the chunk before to its own last byte; overhead is what is left
of it after what the commit of the one before ran longer than its encoding, and this one's denoise, decode and
encode. Waiting for the device counts as overhead.
"""

import argparse
import asyncio
import json
import statistics
import sys
from itertools import pairwise

from app.client import Chunk, Client
from tests.bench._server import served

CHUNKS = 60
WARM = 8  # the view is full, and allocators have settled
TARGET = 0.03


async def play(url: str) -> list[Chunk]:
    """All chunks of one stream that is not paced."""
    options = {"pace_to_media_time": False}
    async with (
        Client(url) as client,
        client.stream(prompt="a meadow", seed=1, extra_params=options) as stream,
    ):
        await stream.keys("w")
        return [await stream.chunk() for _ in range(CHUNKS)]


def shares(chunks: list[Chunk]) -> tuple[list[float], list[float]]:
    """Of each steady chunk: its milliseconds, and the share of overhead in them."""
    times, overheads = [], []
    for before, chunk in list(pairwise(chunks))[WARM:]:
        timing = chunk.metadata["timing"]  # the commit that it names is of the one before
        total = (chunk.arrived - before.arrived) * 1000
        spent = max(0.0, timing["commit_ms"] - before.metadata["timing"]["encode_ms"])
        spent += sum(timing[f"{stage}_ms"] for stage in ("denoise", "decode", "encode"))
        times.append(total)
        overheads.append((total - spent) / total)
    return times, overheads


def main(engine: str = "native") -> None:
    """Print one JSON line."""
    with served(engine) as url:
        times, overheads = shares(asyncio.run(play(url)))
    median = statistics.median(overheads)
    figures = {
        "bench": "service_overhead",
        "engine": engine,
        "overhead_share": round(median, 4),
        "overhead_share_p95": round(statistics.quantiles(overheads, n=20)[-1], 4),
        "overhead_ms": round(statistics.median(t * o for t, o in zip(times, overheads, strict=True)), 3),
        "chunk_ms": round(statistics.median(times), 2),
        "chunks": len(times),
        "seed": 1,
        "target_share": TARGET,
        "ok": median <= TARGET,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="native", choices=("native", "pattern"))
    main(parser.parse_args().engine)
