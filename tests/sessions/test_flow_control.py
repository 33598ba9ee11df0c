"""How far a stream runs ahead of its viewer: acknowledgements, and media time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, UNPACED, calm, managed, until
from stream_stage import CHUNK_S

from app.bootstrap import build_reducers
from engine.api import ChunkCommitted, ChunkReady, Control, Tick
from engine.pattern.engine import PatternEngine
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.observer import Observer
from sessions.outputs import ChunkOutput
from sessions.spec import SessionSpec

TWENTY_CHUNKS = replace(SPEC, pacing=UNPACED, num_frames=9 + 12 * 19)


class Counting(Observer):
    def __init__(self) -> None:
        self.underruns: list[float] = []
        self.dropped: list[tuple[str, int]] = []

    def underrun(self, seconds: float) -> None:
        self.underruns.append(seconds)

    def chunks_dropped(self, reason: str, count: int) -> None:
        self.dropped.append((reason, count))


async def test_a_reader_that_acknowledges_is_at_most_so_many_chunks_behind() -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    manager = await managed(engine, limits=Limits(unacked_chunks=3))
    outbox = (await manager.create(TWENTY_CHUNKS)).play()
    put: list[int] = []

    async def read() -> None:
        async for output in outbox:
            if isinstance(output, ChunkOutput):
                put.append(output.transport_index)
                if output.transport_index == 0:
                    outbox.ack(0)

    reading = asyncio.create_task(read())
    engine.gate.set()
    await until(lambda: 3 in put)
    await calm(500)
    assert put == [0, 1, 2, 3]
    outbox.ack(99)  # nobody has sent that
    outbox.ack(0)
    await calm(500)
    assert put == [0, 1, 2, 3]
    outbox.ack(2)
    await until(lambda: 5 in put)
    await calm(500)
    assert put == [0, 1, 2, 3, 4, 5]
    await manager.stop()
    await reading


async def test_a_reader_that_never_acknowledges_is_not_held_up() -> None:
    manager = await managed(limits=Limits(unacked_chunks=1))
    outbox = (await manager.create(TWENTY_CHUNKS)).play()
    chunks = [output async for output in outbox if isinstance(output, ChunkOutput)]
    assert len(chunks) == 20
    await manager.stop()


async def test_what_does_not_reach_who_leaves_is_counted() -> None:
    observer = Counting()
    manager = await managed(observer=observer)
    session = await manager.create(TWENTY_CHUNKS)
    outbox = session.play()
    await until(lambda: outbox.terminal)
    session.leave(outbox)
    assert observer.dropped == [("left", 20)]
    await manager.stop()


class TimedEngine(PatternEngine):
    """Takes so long for a chunk, by the test's clock."""

    def __init__(self, clock: ManualClock, chunk_s: float) -> None:
        super().__init__()
        self._test_clock = clock
        self._chunk_s = chunk_s
        self.rests = True  # nothing is under way but the clock

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        done = asyncio.Event()

        def compute() -> None:
            self.rests = False
            done.set()

        self._test_clock.call_at(self._test_clock.now() + self._chunk_s, compute)
        await done.wait()
        async for answer in super().run_chunk(tick, slack_s):
            yield answer
        self.rests = True


class Viewer:
    """Plays what arrives, chunk after chunk, and remembers when it showed the answer to each input."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._free_at = 0.0  # when what it has is played
        self.asked: dict[str, float] = {}
        self.lags: dict[str, float] = {}
        self.stalls = 0

    def take(self, output: ChunkOutput) -> None:
        begins = max(self._clock.now(), self._free_at)
        self.stalls += output.transport_index > 0 and self._clock.now() > self._free_at + 1e-6
        self._free_at = begins + len(output.media.frames) / output.media.fps
        for name in output.started_event_ids:
            self.lags[name] = begins - self.asked[name]


async def walk(compute_s: float, observer: Observer, inputs: int = 12) -> Viewer:
    """One viewer who presses keys at random moments, over a model that takes `compute_s` for a chunk."""
    clock = ManualClock()
    engine = TimedEngine(clock, compute_s)
    manager = SessionManager(engine, MemoryJournal(), build_reducers(), clock=clock, observer=observer)
    await manager.start()
    session = await manager.create(SessionSpec("a meadow", 96, 64, 16, 7, scene=engine.card.scenes[0].name))
    outbox, viewer, moments = session.play(), Viewer(clock), random.Random(5)

    async def read() -> None:
        async for output in outbox:
            if isinstance(output, ChunkOutput):
                viewer.take(output)

    reading = asyncio.create_task(read())
    for index in range(inputs):
        for _ in range(moments.randint(8, 40)):
            await passing(clock, engine)
        data = {"mode": "state", "transitions": [{"actions": [moments.choice("wasd")]}]}
        viewer.asked[str(index)] = clock.now()
        await session.interact(str(index), controls=(Control("camera", "lingbot.camera_actions.v1", data),))
    while len(viewer.lags) < inputs:
        await passing(clock, engine)
    stopping = asyncio.create_task(manager.stop())
    while not stopping.done():
        await passing(clock, engine)
    await reading
    return viewer


async def passing(clock: ManualClock, engine: TimedEngine) -> None:
    """A twentieth of a chunk goes by, and all that it leads to."""
    clock.advance(CHUNK_S / 20)
    await until(lambda: engine.rests)
    await calm(20)


@pytest.mark.parametrize(("faster", "stalls"), [(5, 0), (1.25, 1)])  # the first chunk is a shorter one
async def test_an_input_is_seen_within_two_chunks_however_fast_the_model_is(
    faster: float, stalls: int
) -> None:
    observer = Counting()
    viewer = await walk(CHUNK_S / faster, observer)
    assert max(viewer.lags.values()) <= 2 * CHUNK_S + CHUNK_S / 10
    assert viewer.stalls == len(observer.underruns) == stalls


async def test_a_model_that_is_too_slow_makes_underruns_that_are_counted() -> None:
    observer = Counting()
    viewer = await walk(CHUNK_S * 1.5, observer, inputs=3)
    assert viewer.stalls > 1
    assert abs(len(observer.underruns) - viewer.stalls) <= 1
    assert all(0 < seconds < CHUNK_S for seconds in observer.underruns)
