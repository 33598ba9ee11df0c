"""The pattern behind the engine's protocol, in the server's own process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    ChunkCommitted,
    ChunkFailed,
    ChunkReady,
    EngineError,
    EngineLost,
    EngineState,
    EngineStatus,
    ModelCard,
    OpenWorld,
    StageTimes,
    Tick,
    UnknownWorld,
    WorldLedger,
    WorldSnapshot,
)
from engine.media.chunk import encode_chunk
from engine.pattern.card import PAGES_PER_WORLD, check_request, pattern_card
from engine.pattern.scenery import scenery_for
from engine.pattern.snapshot import pack_walk, require_same_opening, unpack_walk
from engine.pattern.world import PatternWorld, Walk


@dataclass(slots=True)
class _Room:
    """A world with its request, its turn (one job at a time) and the cancel flag of the chunk in flight."""

    request: OpenWorld
    world: PatternWorld
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    ready: bool = False

    def settle(self) -> None:
        """End the chunk in flight: kept if its pixels have left, forgotten if not."""
        if self.ready:
            self.world.commit()
        else:
            self.world.rollback()
        self.ready = False


class PatternEngine:
    """An `Engine` that draws: seeded, deterministic, really encoded, obeying the camera's keys.

    `chunk_seconds` is how long a chunk pretends to compute before its pixels are ready, `commit_seconds` how
    long its commit takes after them; each world has a device of its own, so they overlap between worlds.
    """

    def __init__(
        self,
        chunk_seconds: float = 0.0,
        commit_seconds: float = 0.0,
        capacity: int = 256,
        card: ModelCard | None = None,
    ) -> None:
        self.chunk_seconds = chunk_seconds
        self.commit_seconds = commit_seconds
        self.card = card or pattern_card(capacity)
        self._state = EngineState.STARTING
        self._rooms: dict[str, _Room] = {}
        self._running = 0

    async def start(self) -> ModelCard:
        """Nothing to load."""
        self._state = EngineState.READY
        return self.card

    async def stop(self) -> None:
        """Drop every world; chunks in flight end in `EngineLost`."""
        self._state = EngineState.STOPPED
        for room in self._rooms.values():
            room.cancelled.set()
        self._rooms.clear()

    def status(self) -> EngineStatus:
        """Where the engine stands now."""
        return EngineStatus(
            state=self._state,
            reason="" if self._state is EngineState.READY else f"pattern engine is {self._state}",
            worlds=len(self._rooms),
            queue_depth=self._running,
            pages_in_use=len(self._rooms) * PAGES_PER_WORLD,
            pages_total=self.card.capacity * PAGES_PER_WORLD,
        )

    async def open_world(self, request: OpenWorld) -> None:
        """Make a world: the scene or the image becomes the skyline."""
        self._open(request, Walk())

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        """Draw, encode and hand over the next chunk, then commit it."""
        self._require_ready()
        room = self._room(tick.world)
        began = time.perf_counter()
        self._running += 1
        try:
            room.cancelled.clear()
            async with room.turn:
                queued = time.perf_counter()
                try:
                    ready = await self._make(room, tick, (queued - began) * 1000)
                    self._check_cancelled(room, tick)
                    room.ready = True
                    yield ready
                    committing = time.perf_counter()
                    await _pause(self.commit_seconds)
                finally:
                    # Once its pixels have left, a chunk commits even where nobody waits for it any more.
                    room.settle()
                yield ChunkCommitted(tick, (time.perf_counter() - committing) * 1000)
        finally:
            self._running -= 1

    async def cancel_chunk(self, world: str) -> None:
        """Roll the chunk in flight back, if its pixels have not left."""
        if world in self._rooms:
            self._rooms[world].cancelled.set()

    async def reset_world(self, world: str) -> None:
        """Back to the first frame, after the chunk in flight."""
        room = self._room(world)
        async with room.turn:
            room.world.reset()

    async def close_world(self, world: str) -> None:
        """Release the world after its chunk in flight; idempotent."""
        room = self._rooms.get(world)
        if room is None:
            return
        room.cancelled.set()
        async with room.turn:
            self._rooms.pop(world, None)

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        """The walk of a world, after its chunk in flight."""
        self._require_ready()
        room = self._room(world)
        async with room.turn:
            walk = room.world.walk
        return WorldSnapshot(world, walk.chunks, pack_walk(room.request, walk))

    async def restore_world(self, request: OpenWorld, snapshot: bytes) -> None:
        """Make a world that walks on from a snapshot."""
        self._open(request, unpack_walk(request, snapshot))

    async def fork_world(self, source: str, request: OpenWorld) -> None:
        """Make a world that walks on from where another one is."""
        self._require_ready()
        room = self._room(source)
        async with room.turn:
            require_same_opening(room.request, request)
            self._open(request, room.world.walk)

    async def read_ledger(self, world: str) -> WorldLedger:
        """A pattern has no caches."""
        self._require_ready()
        self._room(world)
        return WorldLedger(world, (), 0, balanced=True)

    def _open(self, request: OpenWorld, walk: Walk) -> None:
        self._require_ready()
        check_request(request, self.card)
        if len(self._rooms) >= self.card.capacity:
            raise CapacityReached(f"all {self.card.capacity} worlds are taken")
        assert request.world not in self._rooms, f"world {request.world} is open already"
        self._rooms[request.world] = _Room(request, PatternWorld(scenery_for(request), walk))

    async def _make(self, room: _Room, tick: Tick, queue_ms: float) -> ChunkReady:
        if tick.chunk_index != room.world.walk.chunks:
            raise ChunkFailed(f"chunk {tick.chunk_index} was asked for; next is {room.world.walk.chunks}")
        began = time.perf_counter()
        await _pause(self.chunk_seconds, room.cancelled)
        self._check_cancelled(room, tick)
        computed = time.perf_counter()
        try:
            frames = await self._draw(room, tick)
            drawn = time.perf_counter()
            media = encode_chunk(frames, room.request.media, room.request.fps, room.world.walk.frames)
        except EngineError:
            raise
        except Exception as error:
            raise ChunkFailed(f"chunk {tick.chunk_index} could not be drawn: {error}") from error
        times = StageTimes(
            queue_ms=queue_ms,
            denoise_ms=(computed - began) * 1000,
            decode_ms=(drawn - computed) * 1000,
            encode_ms=(time.perf_counter() - drawn) * 1000,
        )
        return ChunkReady(tick, media, times)

    async def _draw(self, room: _Room, tick: Tick) -> NDArray[np.uint8]:
        frames = []
        for frame in room.world.render(tick):
            frames.append(frame)
            await asyncio.sleep(0)  # large pictures must not hold the loop for a whole chunk
            self._check_cancelled(room, tick)
        return np.stack(frames)

    def _check_cancelled(self, room: _Room, tick: Tick) -> None:
        if self._state is not EngineState.READY:
            raise EngineLost("the pattern engine was stopped")
        if room.cancelled.is_set():
            raise ChunkCancelled(f"chunk {tick.chunk_index} was cancelled")

    def _require_ready(self) -> None:
        if self._state is not EngineState.READY:
            raise EngineLost(f"the pattern engine is {self._state}")

    def _room(self, world: str) -> _Room:
        try:
            return self._rooms[world]
        except KeyError:
            raise UnknownWorld(f"no world {world}") from None


async def _pause(seconds: float, until: asyncio.Event | None = None) -> None:
    """Wait `seconds`, or until the event."""
    if until is None:
        await asyncio.sleep(seconds)
        return
    try:
        await asyncio.wait_for(until.wait(), seconds)
    except TimeoutError:
        return
