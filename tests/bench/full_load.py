"""200 sockets connected, 20 of them streaming: how late the event loop is, `/health`, underruns.

The server draws the test pattern; clients run in this process, the server in one of its own, its worker in a
third. The viewers start to play with their first chunk.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from app.client import Client, Stream
from tests.bench._server import served_process
from tests.load.viewer import Viewer

CONNECTED = 200
STREAMING = 20
SECONDS = 20.0
EVERY_S = 0.02
LAG_MS, HEALTH_MS = 20.0, 50.0
BUCKET = re.compile(r'worldline_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)')
Lags = dict[float, float]


@dataclass
class Seen:
    """What the clients saw."""

    health_ms: list[float] = field(default_factory=list)
    stalls_ms: list[float] = field(default_factory=list)
    chunks: int = 0
    processor_s: float = 0.0  # of the server and its worker


async def lags(client: Client) -> Lags:
    """Cumulative counts of the event loop's lag, by its upper bound in seconds."""
    text = (await client.call("GET", "/metrics")).text
    return {float(bound): float(count) for bound, count in BUCKET.findall(text)}


def quantile(before: Lags, after: Lags, share: float) -> float:
    """The upper bound of the bucket in which the quantile lies, in seconds."""
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    return next(bound for bound, count in counts.items() if count >= share * counts[float("inf")])


async def watch(stream: Stream, until: float, seen: Seen) -> None:
    """Receive chunks as they come, and note whenever a viewer would have stood still."""
    viewer = Viewer(steady_from=0)
    while time.perf_counter() < until:
        chunk = await stream.chunk()
        arrival = viewer.take(chunk.arrived, chunk.metadata["num_frames"], 16)
        seen.chunks += 1
        if arrival.stalled_s > 0:
            seen.stalls_ms.append(arrival.stalled_s * 1000)


async def poll(client: Client, until: float, seen: Seen) -> None:
    """`/health`, every 20 ms."""
    due = time.perf_counter()
    while due < until:
        due += EVERY_S
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        await client.call("GET", "/health")
        seen.health_ms.append((time.perf_counter() - began) * 1000)


def processor(pid: int) -> float:
    """Seconds that a process and those that it started have computed."""
    family = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    fields = [Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split() for member in family]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


async def measure(url: str, pid: int) -> tuple[Seen, Lags, Lags]:
    """Connect everybody, then stream."""
    seen = Seen()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(url))

        async def connect(mode: str) -> Stream:
            return await stack.enter_async_context(client.stream(prompt="a meadow", seed=1, mode=mode))

        for _ in range(CONNECTED - STREAMING):
            await connect("stepped")
        streams = [await connect("continuous") for _ in range(STREAMING)]
        await client.call("GET", "/health")
        until, before, began = time.perf_counter() + SECONDS, await lags(client), processor(pid)
        await asyncio.gather(*(watch(stream, until, seen) for stream in streams), poll(client, until, seen))
        seen.processor_s = processor(pid) - began
        return seen, before, await lags(client)


def figures() -> dict[str, object]:
    """What is printed."""
    with served_process("pattern", {}) as (url, pid):
        seen, before, after = asyncio.run(measure(url, pid))
    health = statistics.quantiles(seen.health_ms, n=100)[-1]
    lag = quantile(before, after, 0.99) * 1000
    return {
        "bench": "full_load",
        "connected": CONNECTED,
        "streaming": STREAMING,
        "seconds": SECONDS,
        "loop_lag_p50_at_most_ms": quantile(before, after, 0.5) * 1000,
        "loop_lag_p99_at_most_ms": lag,
        "loop_lag_samples": int(after[float("inf")] - before[float("inf")]),
        "target_lag_p99_ms": LAG_MS,
        "health_p50_ms": round(statistics.median(seen.health_ms), 2),
        "health_p99_ms": round(health, 2),
        "health_polls": len(seen.health_ms),
        "target_health_p99_ms": HEALTH_MS,
        "chunks": seen.chunks,
        "processor_ms_per_chunk": round(seen.processor_s * 1000 / seen.chunks, 2),
        "underruns": len(seen.stalls_ms),
        "underrun_worst_ms": round(max(seen.stalls_ms, default=0.0), 1),
        "ok": lag <= LAG_MS and health <= HEALTH_MS and not seen.stalls_ms,
    }


def main() -> None:
    """Print one JSON line."""
    sys.stdout.write(json.dumps(figures()) + "\n")


if __name__ == "__main__":
    main()
