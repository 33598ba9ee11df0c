"""What durability costs a `tiny` chunk, and how soon a session goes on: journal, snapshots, resume, fork.

In one process with the session layer and its worker, over files; each chunk is asked for by an event.

`journal_waited_ms` is what a chunk's pixels wait for its fact, `journal_cpu_ms` what the journal's thread
computes for all facts of a chunk, its event included: a busy machine lengthens the first and not the
second. The shares are of the median chunk, and of the fastest. A suspended session should come back in what
a live one takes, and `snapshot_load_ms` (its file read, its world restored), and the chunks since its
snapshot, of which there are none here: `resume_suspended_over_ms` is what it takes beyond that.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.bootstrap import build_engine, build_reducers, build_snapshots
from app.settings import Settings
from engine.api import Control, ModelCard
from sessions.events import Event
from sessions.facts import Fact
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput
from sessions.session import Session
from sessions.snapshots import Point
from sessions.spec import Mode, Pacing, SessionSpec
from sessions.sql_journal import SqlJournal
from sessions.world import open_request

CHUNKS = 32
WARM = 8
REPEATS = 9
KEYS = Control("camera", "lingbot.camera_actions.v1", {"mode": "state", "transitions": [{"actions": ["w"]}]})


class TimedJournal(SqlJournal):
    """Keeps how long each fact took to be durable, in milliseconds by its kind."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.times: dict[str, list[float]] = {}

    def cpu_ms(self) -> float:
        """What its thread has computed so far."""
        assert self._thread is not None and self._thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident)) * 1000

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        began, times = time.perf_counter(), self.times.setdefault(type(fact).__name__, [])
        written = super().append(world, expected, fact, at)
        written.add_done_callback(lambda _: times.append((time.perf_counter() - began) * 1000))
        return written


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = await work()
    return (time.perf_counter() - began) * 1000, result


async def step(session: Session) -> float:
    """An event and its chunk; the chunk's milliseconds."""
    await session.submit(Event(session.info().event_floor, None, (KEYS,)))
    return (await timed(session.run_chunk))[0]


async def first_chunk(outbox: Outbox) -> ChunkOutput:
    async for output in outbox:
        if isinstance(output, ChunkOutput):
            return output
    raise AssertionError("a stream goes on")


async def resumed(manager: SessionManager, session: Session, suspend: bool) -> float:
    """From coming back to the first new chunk, in milliseconds."""
    outbox = await session.resume(session.audience.tape.last.transport_index)  # type: ignore[union-attr]
    await first_chunk(outbox)
    session.leave(outbox)
    await session.stop()
    last = session.audience.tape.last
    assert last is not None
    if suspend:
        await session.suspend("disconnected")
    began = time.perf_counter()
    back = await manager.awake(session.session_id)
    outbox = await back.resume(last.transport_index)
    await first_chunk(outbox)
    took = (time.perf_counter() - began) * 1000
    back.leave(outbox)
    await back.stop()
    return took


async def measure(engine_kind: str, folder: Path) -> dict[str, Any]:
    settings = Settings(data=folder, engine=engine_kind)  # type: ignore[arg-type]
    journal, snapshots = TimedJournal(f"sqlite:///{folder}/journal.db"), build_snapshots(settings)
    assert snapshots is not None
    engine = build_engine(settings)
    limits = Limits(snapshot_every=10**6)
    manager = SessionManager(engine, journal, build_reducers(), limits=limits, snapshots=snapshots)
    card: ModelCard = await manager.start()
    scene = card.scenes[0]
    spec = SessionSpec(
        scene.prompt,
        card.width,
        card.height,
        card.fps,
        1,
        scene=scene.name,
        mode=Mode.STEPPED,
        session_id="s",
    )
    session = await manager.create(spec)
    for _ in range(WARM):
        await step(session)
    journal.times.clear()
    cpu_before = journal.cpu_ms()
    chunks = [await step(session) for _ in range(CHUNKS)]
    cpu_ms, chunk_ms = (journal.cpu_ms() - cpu_before) / CHUNKS, statistics.median(chunks)
    journal_ms = sum(statistics.median(times) for times in journal.times.values())
    waited_ms = statistics.median(journal.times["ChunkBegun"])
    world = session.info().world
    taken, written, size = [], [], 0
    for number in range(REPEATS):
        took, snapshot = await timed(lambda: engine.snapshot_world(world))
        taken.append(took)
        size = len(snapshot.data)
        written.append((await timed(lambda: snapshots.save("bench", Point(0, number), snapshot.data)))[0])  # noqa: B023
    loads = []
    opening = replace(open_request(world, session.spec), world="loaded")
    for _ in range(REPEATS):

        async def load() -> None:
            stored = await snapshots.newest("bench")
            assert stored is not None
            await engine.restore_world(opening, stored.data)

        loads.append((await timed(load))[0])
        await engine.close_world("loaded")
    load_ms = statistics.median(loads)
    forks = []
    for number in range(REPEATS):
        fork_spec = replace(session.spec, session_id=f"fork-{number}")
        took, fork = await timed(lambda: manager.fork("s", fork_spec))  # noqa: B023
        forks.append(took)
        await fork.close()
    streamed = replace(spec, session_id="live", mode=Mode.CONTINUOUS, pacing=Pacing(to_media_time=False))
    live = await manager.create(streamed)
    outbox = live.play()
    for _ in range(WARM):
        await first_chunk(outbox)
    live.leave(outbox)
    await live.stop()
    live_ms = statistics.median([await resumed(manager, live, suspend=False) for _ in range(REPEATS)])
    suspended = []
    for _ in range(REPEATS):
        suspended.append(await resumed(manager, await manager.awake("live"), suspend=True))
    await manager.stop()
    every = Limits().snapshot_every
    snapshot_ms = statistics.median(taken) + statistics.median(written)
    return {
        "bench": "durable",
        "engine": engine_kind,
        "chunk_ms": round(chunk_ms, 2),
        "chunk_fastest_ms": round(min(chunks), 2),
        "journal_ms": round(journal_ms, 3),
        "journal_waited_ms": round(waited_ms, 3),
        "journal_cpu_ms": round(cpu_ms, 3),
        "journal_share": round(waited_ms / chunk_ms, 4),
        "journal_cpu_share": round(cpu_ms / min(chunks), 4),
        "snapshot_bytes": size,
        "snapshot_take_ms": round(statistics.median(taken), 2),
        "snapshot_write_ms": round(statistics.median(written), 2),
        "snapshot_load_ms": round(load_ms, 2),
        "snapshot_share": round(snapshot_ms / every / chunk_ms, 4),
        "fork_ms": round(statistics.median(forks), 2),
        "fork_fastest_ms": round(min(forks), 2),
        "resume_live_ms": round(live_ms, 2),
        "resume_live_per_chunk": round(live_ms / chunk_ms, 2),
        "resume_suspended_ms": round(statistics.median(suspended), 2),
        "resume_suspended_over_ms": round(statistics.median(suspended) - live_ms - load_ms, 2),
        "targets": {
            "journal_share": 0.02,
            "journal_cpu_share": 0.02,
            "snapshot_share": 0.05,
            "fork_ms": 10,
            "resume_live_per_chunk": 1.5,
        },
    }


def main(engine: str = "native") -> None:
    """Print one JSON line."""
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(engine, Path(folder)))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="native", choices=("native", "pattern"))
    main(parser.parse_args().engine)
