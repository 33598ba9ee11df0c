"""An engine that obeys, and those that fail as they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    ChunkCommitted,
    ChunkReady,
    EncodedChunk,
    EngineLost,
    EngineState,
    EngineStatus,
    ModelCard,
    OpenWorld,
    SnapshotRefused,
    StageTimes,
    Tick,
    UnknownWorld,
    WorldSnapshot,
)
from sessions.frozen import digest

CARD = ModelCard(
    name="scripted",
    width=96,
    height=64,
    fps=16,
    size_multiple=16,
    max_pixels=96 * 64,
    first_chunk_frames=9,
    chunk_frames=12,
    frames_per_block=3,
    steps=4,
    capacity=8,
    scenes=(),
    control_schemas={"camera": ("keys.v1",)},
)


class ScriptedWorld:
    def __init__(self, request: OpenWorld) -> None:
        self.request = request
        self.history: list[str] = []  # the digests of its committed chunks
        self.turn = asyncio.Lock()
        self.cancelled = asyncio.Event()


class ScriptedEngine:
    """An engine whose frames are digests of all that a chunk depends on. Faults come by subclass.

    `gate` is passed before a chunk is ready: clear it to keep chunks in flight. So is `commits` for commits.
    """

    def __init__(self, capacity: int = 8) -> None:
        self.card = replace(CARD, capacity=capacity)
        self.worlds: dict[str, ScriptedWorld] = {}
        self.state = EngineState.STARTING
        self.gate = asyncio.Event()
        self.gate.set()
        self.commits = asyncio.Event()
        self.commits.set()
        self.ticks: list[Tick] = []
        self.slacks: list[float | None] = []
        self.log: list[str] = []

    async def start(self) -> ModelCard:
        self.state = EngineState.READY
        return self.card

    async def stop(self) -> None:
        self.state = EngineState.STOPPED

    def status(self) -> EngineStatus:
        return EngineStatus(self.state, "", len(self.worlds), 0, 0, 0)

    async def open_world(self, request: OpenWorld) -> None:
        if len(self.worlds) >= self.card.capacity:
            raise CapacityReached("full")
        assert request.world not in self.worlds
        self.worlds[request.world] = ScriptedWorld(request)
        self.log.append("open")

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        world = self.world(tick.world)
        self.ticks.append(tick)
        self.slacks.append(slack_s)
        world.cancelled.clear()
        async with world.turn:
            await self.probe(tick)
            await either(self.gate, world.cancelled)
            if world.cancelled.is_set():
                raise ChunkCancelled("cancelled")
            assert len(world.history) == tick.chunk_index, "the session and its world disagree"
            media = picture(world, tick)
            yield await self.ready(tick, media)
            await self.commits.wait()
            committed = await self.commit(tick)
            world.history.append(media.digest)
            yield committed

    async def probe(self, tick: Tick) -> None:
        """Override to fail while it computes."""

    async def ready(self, tick: Tick, media: EncodedChunk) -> ChunkReady:
        return ChunkReady(tick, media, StageTimes(1.0, 2.0, 3.0, 4.0))

    async def commit(self, tick: Tick) -> ChunkCommitted:
        return ChunkCommitted(tick, 5.0)

    async def cancel_chunk(self, world: str) -> None:
        if world in self.worlds:
            self.worlds[world].cancelled.set()

    async def reset_world(self, world: str) -> None:
        async with self.world(world).turn:
            self.world(world).history.clear()
            self.log.append("reset")

    async def close_world(self, world: str) -> None:
        if world in self.worlds:
            self.worlds[world].cancelled.set()
            async with self.worlds[world].turn:
                self.worlds.pop(world, None)
            self.log.append("close")

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        history = self.world(world).history
        self.log.append("snapshot")
        return WorldSnapshot(world, len(history), json.dumps(history).encode())

    async def restore_world(self, request: OpenWorld, snapshot: bytes) -> None:
        try:
            history = json.loads(snapshot)
        except ValueError as error:
            raise SnapshotRefused("not JSON") from error
        await self.open_world(request)
        self.worlds[request.world].history = history
        self.log[-1] = "restore"

    async def fork_world(self, source: str, request: OpenWorld) -> None:
        history = list(self.world(source).history)
        await self.open_world(request)
        self.worlds[request.world].history = history
        self.log[-1] = "fork"

    def world(self, name: str) -> ScriptedWorld:
        if self.state is not EngineState.READY:
            raise EngineLost("the worker died")
        if name not in self.worlds:
            raise UnknownWorld(f"no world {name}")
        return self.worlds[name]


def picture(world: ScriptedWorld, tick: Tick) -> EncodedChunk:
    """Frames that differ wherever seed, history, prompt, or conditioning do."""
    frames = 9 if tick.chunk_index == 0 else 12
    first = 0 if tick.chunk_index == 0 else 9 + 12 * (tick.chunk_index - 1)
    seen = digest([world.request.seed, *world.history, tick.prompt, tick.conditioning])
    data = tuple(f"{seen}:{first + i}".encode() for i in range(frames))
    return EncodedChunk("h264", "avc1.42c01e", 96, 64, 16, first, data, seen)


async def either(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


class Mortal(ScriptedEngine):
    """Its worker can die and come back without its worlds."""

    def die(self) -> None:
        self.state = EngineState.RESTARTING
        for world in self.worlds.values():
            world.cancelled.set()
        self.worlds.clear()

    def come_back(self) -> None:
        self.state = EngineState.READY

    async def probe(self, tick: Tick) -> None:
        await self.gate.wait()
        self.world(tick.world)

    async def commit(self, tick: Tick) -> ChunkCommitted:
        self.world(tick.world)
        return await super().commit(tick)


class Failing(ScriptedEngine):
    """Raises in one stage of one chunk."""

    def __init__(self, stage: str, error: Exception, chunk: int = 1) -> None:
        super().__init__()
        self.stage, self.error, self.chunk = stage, error, chunk

    def check(self, stage: str, tick: Tick) -> None:
        if stage == self.stage and tick.chunk_index == self.chunk and tick.epoch == 0:
            raise self.error

    async def probe(self, tick: Tick) -> None:
        self.check("probe", tick)

    async def ready(self, tick: Tick, media: EncodedChunk) -> ChunkReady:
        self.check("ready", tick)
        return await super().ready(tick, media)

    async def commit(self, tick: Tick) -> ChunkCommitted:
        self.check("commit", tick)
        return await super().commit(tick)
