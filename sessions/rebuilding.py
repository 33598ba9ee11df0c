"""Making a world again: a snapshot, and the chunks since it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    ChunkReady,
    EncodedChunk,
    EngineError,
    EngineLost,
    OpenWorld,
    SnapshotRefused,
    Tick,
    UnknownWorld,
)
from sessions.engine_errors import as_session_error
from sessions.errors import ReplayDiverged, StorageUnavailable, WorldLost
from sessions.history import BeforeCheckpoint, History, Link
from sessions.services import Services
from sessions.snapshots import Point, StoredSnapshot

log = logging.getLogger(__name__)

Rerun = Callable[[Link, EncodedChunk], None]


class Rebuilder:
    """Makes the world `request.world` in the engine, as a history leaves it.

    `check` raises where nobody wants it any more. Each chunk that runs again has to give the frames that the
    journal has of it, or an older snapshot is taken; so a damaged one can cost time, and never a wrong world.
    """

    def __init__(self, services: Services, request: OpenWorld, check: Callable[[], None]) -> None:
        self._services = services
        self._engine = services.engine
        self._request = request
        self._check = check

    async def rebuild(
        self, history: History, replay_from: int | None = None, rerun: Rerun | None = None
    ) -> int:
        """The world, after the chunks of the line; how many were run again.

        `replay_from`: a chunk of the line that has to be run again; `rerun` gets its media, and that of those
        behind it. Raises `WorldLost`, `ReplayDiverged`, what opening raises, and what `check` does; and
        `BeforeCheckpoint` where no snapshot is of use that this history reaches back to.
        """
        below = history.chunks + 1 if replay_from is None else replay_from + 1
        while True:
            position = await self._make(history, below)
            try:
                for link in history.line[position - history.base :]:
                    media = await self.run_again(link)
                    if rerun is not None and replay_from is not None:
                        rerun(link, media)
                return history.chunks - position
            except ReplayDiverged as diverged:
                await self._drop()
                if position == 0:
                    raise
                log.warning("world %s: %s; an older snapshot is taken", self._request.world, diverged)
                below = position

    async def run_again(self, link: Link) -> EncodedChunk:
        """One chunk that ran before; its media. Raises `ReplayDiverged` where that is another."""
        tick, expected = self._tick(link), link.begun.frames_digest
        while True:
            self._check()
            try:
                media = await self._run(tick)
            except ChunkCancelled:
                continue  # somebody's cancel was meant for what clients can see
            except (EngineLost, UnknownWorld) as error:
                raise WorldLost(str(error)) from error
            except EngineError as error:
                raise as_session_error(error) from error
            if media.digest != expected:
                raise ReplayDiverged(f"chunk {tick.chunk_index} of epoch {tick.epoch} came out differently")
            return media

    def _tick(self, link: Link) -> Tick:
        return replace(link.begun.tick, world=self._request.world)

    async def _run(self, tick: Tick) -> EncodedChunk:
        media: EncodedChunk | None = None
        async for answer in self._engine.run_chunk(tick):
            if isinstance(answer, ChunkReady):
                media = answer.media
        assert media is not None, "an engine is ready before it commits"
        return media

    async def _make(self, history: History, below: int) -> int:
        """A world after fewer than `below` chunks of the line; after how many."""
        self._check()
        while (found := await self._stored(history, below)) is not None:
            position, snapshot = found
            try:
                await self._opened(snapshot.data)
                return position
            except SnapshotRefused as refused:
                log.warning("world %s: snapshot refused: %s", self._request.world, refused)
                below = position
            finally:
                del snapshot
        if history.base:
            raise BeforeCheckpoint(f"no snapshot is of use behind its first {history.base} chunks")
        await self._opened(None)
        return 0

    async def _opened(self, snapshot: bytes | None) -> None:
        while True:
            try:
                if snapshot is None:
                    await self._engine.open_world(self._request)
                else:
                    await self._engine.restore_world(self._request, snapshot)
                break
            except SnapshotRefused:
                raise
            except CapacityReached as full:
                if not await self._services.make_room():
                    raise as_session_error(full) from full
                self._check()
            except EngineLost as lost:
                raise WorldLost(str(lost)) from lost
            except EngineError as error:
                raise as_session_error(error) from error
        try:
            self._check()
        except BaseException:
            await self._drop()
            raise

    async def _stored(self, history: History, below: int) -> tuple[int, StoredSnapshot] | None:
        """The newest snapshot on the line, its ancestors' included."""
        store = self._services.snapshots
        if store is None:
            return None
        lives: dict[str, dict[Point, int]] = {}  # in the order in which the line runs through them
        if history.base_point is not None and history.base < below:
            lives[history.protocol.world] = {history.base_point: history.base}
        for position, link in enumerate(history.line[: max(0, below - 1 - history.base)], history.base + 1):
            tick = link.begun.tick
            lives.setdefault(tick.world, {})[Point(tick.epoch, position)] = position
        try:
            for world in reversed(lives):
                snapshot = await store.newest(world, lives[world].__contains__)
                if snapshot is not None:
                    return lives[world][snapshot.point], snapshot
        except StorageUnavailable as error:
            log.warning("world %s: no snapshot could be read: %s", self._request.world, error)
        return None

    async def _drop(self) -> None:
        with suppress(EngineError):
            await self._engine.close_world(self._request.world)
