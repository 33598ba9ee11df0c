"""What keeping a world costs, for the embedded checkpoint behind its worker process: size and milliseconds.

`amortised_percent` is what snapshots every `EVERY` chunks take of a chunk's time, on the device's thread and
the encoder's; `save_ms` is the file with its disk flush, on a thread of the server.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from engine.api import ChunkReady, EncodedChunk, OpenWorld, Tick
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from sessions.folder_recordings import FolderRecordings
from sessions.folder_snapshots import FolderSnapshots
from sessions.recordings import RecordedChunk
from sessions.snapshots import Point

CHUNKS = 12  # the view is full after six
ROUNDS = 15
EVERY = 8
MOTIONS = ({"keys": ("w",)},) * 3


async def chunk(engine: ProcessEngine, request: OpenWorld, index: int) -> EncodedChunk:
    conditioning: dict[str, Any] = {"camera": MOTIONS}
    tick = Tick("s", request.world, 0, f"r{index}", index, (), request.prompt, (), conditioning)
    ready, _ = [answer async for answer in engine.run_chunk(tick)]
    assert isinstance(ready, ChunkReady)
    return ready.media


async def timed(call: Callable[[], Awaitable[Any]], times: list[float]) -> Any:
    began = time.perf_counter()
    result = await call()
    times.append((time.perf_counter() - began) * 1000)
    return result


async def measure(folder: Path) -> dict[str, float]:
    engine = ProcessEngine(Boot("engine.native:make_host"), {"OMP_NUM_THREADS": "1"})
    card = await engine.start()
    scene = card.scenes[0]
    store, recordings = FolderSnapshots(folder / "snapshots"), FolderRecordings(folder / "recordings")
    await store.start()
    await recordings.start()

    def request(world: str) -> OpenWorld:
        return OpenWorld(world, scene.prompt, card.width, card.height, card.fps, 1, scene=scene.name)

    times: dict[str, list[float]] = {
        name: [] for name in ("chunk", "snapshot", "save", "load", "restore", "fork", "record")
    }
    await engine.open_world(request("w"))
    for index in range(CHUNKS):
        media = await timed(lambda index=index: chunk(engine, request("w"), index), times["chunk"])
        recorded = RecordedChunk(0, index, media)
        await timed(lambda recorded=recorded: recordings.append("w", recorded), times["record"])
    for number in range(ROUNDS):
        taken = await timed(lambda: engine.snapshot_world("w"), times["snapshot"])
        point = Point(0, number)
        await timed(lambda point=point, data=taken.data: store.save("w", point, data), times["save"])
        loaded = await timed(lambda: store.newest("w"), times["load"])
        await timed(lambda data=loaded.data: engine.restore_world(request("r"), data), times["restore"])
        await timed(lambda: engine.fork_world("w", request("f")), times["fork"])
        for world in ("r", "f"):
            await engine.close_world(world)
    await recordings.stop()
    await store.stop()
    await engine.stop()
    figures = {f"{name}_ms": round(statistics.median(values), 2) for name, values in times.items()}
    fastest = {
        "fork_fastest_ms": round(min(times["fork"]), 2)
    }  # where a busy machine leaves the worker alone
    share = figures["snapshot_ms"] / EVERY / figures["chunk_ms"]
    return {
        "snapshot_bytes": len(taken.data),
        "recorded_bytes_per_chunk": recordings.bytes // CHUNKS,
        **figures,
        **fastest,
        "amortised_percent": round(100 * share, 2),
        "amortised_with_save_percent": round(
            100 * (share + figures["save_ms"] / EVERY / figures["chunk_ms"]), 2
        ),
    }


def main() -> None:
    """One JSON line."""
    folder = Path(tempfile.mkdtemp(prefix="worldline-bench-"))
    try:
        figures = asyncio.run(measure(folder))
    finally:
        shutil.rmtree(folder)
    sys.stdout.write(json.dumps({"bench": "snapshots", "every": EVERY, **figures}) + "\n")


if __name__ == "__main__":
    main()
