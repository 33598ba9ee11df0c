"""How soon `/health` answers while a session streams: polled every 20 ms over one loopback connection."""

import argparse
import asyncio
import json
import statistics
import sys
import time

from app.client import Client
from tests.bench._server import served

POLLS = 750
EVERY_S = 0.02
TARGET_MS = 50.0


async def poll(client: Client) -> list[float]:
    """Milliseconds of each poll; the first ones, which open the connection, are thrown away."""
    taken, due = [], time.perf_counter()
    for _ in range(POLLS + 5):
        due += EVERY_S
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        answer = await client.call("GET", "/health")
        taken.append((time.perf_counter() - began) * 1000)
        assert answer.json() == {"status": "healthy"}
    return taken[5:]


async def measure(url: str) -> tuple[list[float], int]:
    """The polls, and how many chunks arrived meanwhile."""
    async with Client(url) as client, client.stream(prompt="a meadow", seed=1) as stream:
        await stream.chunk()
        polling = asyncio.create_task(poll(client))
        chunks = 0
        while not polling.done():
            await stream.chunk()
            chunks += 1
        return await polling, chunks


def main(engine: str = "native") -> None:
    """Print one JSON line."""
    with served(engine) as url:
        taken, chunks = asyncio.run(measure(url))
    p99 = statistics.quantiles(taken, n=100)[-1]
    figures = {
        "bench": "health_latency",
        "engine": engine,
        "p50_ms": round(statistics.median(taken), 2),
        "p99_ms": round(p99, 2),
        "worst_ms": round(max(taken), 2),
        "polls": len(taken),
        "chunks_meanwhile": chunks,
        "target_p99_ms": TARGET_MS,
        "ok": p99 <= TARGET_MS,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="native", choices=("native", "pattern"))
    main(parser.parse_args().engine)
