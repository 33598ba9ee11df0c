"""Keeps one session's world: takes its snapshots, puts it away, and makes it again where it was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from engine.api import EncodedChunk
from sessions.audience import Audience
from sessions.checkpoint import Checkpoint, encode_checkpoint
from sessions.errors import (
    ChunkAborted,
    JournalCorrupt,
    SessionError,
    SessionFailed,
    WorldLost,
)
from sessions.history import BeforeCheckpoint, History
from sessions.intake import Stood
from sessions.outputs import ChunkOutput
from sessions.protocol import SessionProtocol
from sessions.readiness import engine_ready
from sessions.runner import ChunkRunner
from sessions.services import Services
from sessions.snapshots import Point, discard_or_warn
from sessions.world import World

log = logging.getLogger(__name__)


class Keeper:
    """All calls but `lost` and `discard` are made by whoever has the session's turn.

    `point` is where the world's own line of chunks stands: there a snapshot is of use. `stood` is
    `Intake.stood`.
    """

    def __init__(
        self,
        services: Services,
        world: World,
        protocol: SessionProtocol,
        runner: ChunkRunner,
        audience: Audience,
        stood: Callable[[], Awaitable[Stood | None]],
    ) -> None:
        self.point: Point | None = None
        self._stood = stood
        self._services = services
        self._limits = services.limits
        self._world = world
        self._protocol = protocol
        self._runner = runner
        self._audience = audience
        self._losses = 0  # since the last commit
        self._saving: asyncio.Task[None] | None = None

    @property
    def present(self) -> bool:
        """Whether the engine has the world, as far as is known."""
        return self._world.present

    # Losing and finding

    def lost(self, loss: WorldLost) -> None:
        """The engine does not have the world any more. Raises `SessionFailed` where that was too often."""
        self._world.present = False
        self._losses += 1
        if self._losses > self._limits.revivals:
            message = f"its world was lost {self._losses} times in a row: {loss.message}"
            raise SessionFailed(message) from loss

    def strayed(self) -> None:
        """The engine's world may have a chunk that the session has not: it is made again."""
        self._world.present = False

    async def ensure(self, replay_after: int | None = None) -> None:
        """The engine has the world where the session stands: at once where nothing is to be done.

        A world that is made again runs the shown chunk in flight again, and commits it. The chunks behind the
        transport index `replay_after` are wanted on the tape. Raises `EngineUnavailable`, `CapacityExceeded`,
        `ChunkAborted` (a reset came), `SessionFailed`, `JournalError`, or the state's refusal.
        """
        while not self._world.present:
            await engine_ready(self._services.engine, self._services.clock, self._limits.revive_s)
            try:
                await self._rebuild(replay_after)
            except WorldLost as loss:
                self.lost(loss)
            except JournalCorrupt as error:
                raise SessionFailed(f"its history can't be followed: {error.message}") from error

    async def _rebuild(self, replay_after: int | None) -> None:
        epoch, services = self._protocol.epoch, self._services

        def check() -> None:
            self._protocol.require_alive()
            if self._protocol.epoch != epoch:
                raise ChunkAborted("the session was reset")

        check()
        await self._runner.settled()
        history = await services.archive.recent(self._world.name)
        try:
            media, again = await self._restored(history, check, replay_after)
        except BeforeCheckpoint as reason:
            log.info("world %s: its whole history is read: %s", self._world.name, reason)
            history = await services.archive.whole(self._world.name)
            media, again = await self._restored(history, check, replay_after)
        self._audience.tape.prepend([output for output in again if output.tick.epoch == epoch])
        if history.flight is not None and media is not None:
            if self._runner.unfinished is None:
                self._audience.show(self._runner.again(history.flight, media))
            await self._audience.recorded()
            check()
            self._runner.recommit(history.flight)
        self.point = self._point(history)

    async def _restored(
        self, history: History, check: Callable[[], None], replay_after: int | None
    ) -> tuple[EncodedChunk | None, list[ChunkOutput]]:
        """The world, as `World.rebuild` makes it; and the chunks behind `replay_after`."""
        again: list[ChunkOutput] = []
        first = None if replay_after is None else _first_missing(history, replay_after)
        media = await self._world.rebuild(
            history, check, first, lambda link, media: again.append(self._runner.again(link, media))
        )
        return media, again

    def _point(self, history: History) -> Point | None:
        last = history.flight or (history.line[-1] if history.line else None)
        if last is None:
            return history.base_point
        if last.begun.tick.world != self._world.name:
            return None
        return Point(last.begun.tick.epoch, last.begun.tick.chunk_index + 1)

    # Snapshots

    async def committed(self, output: ChunkOutput) -> None:
        """A chunk was committed; takes a snapshot where one is due."""
        self._losses = 0
        self.point = Point(output.tick.epoch, output.tick.chunk_index + 1)
        if self.point.chunks % self._limits.snapshot_every == 0:
            busy = self._saving is not None and not self._saving.done()
            if not busy:  # a store that is slow gets fewer of them
                await self._snapshot()

    async def put_away(self) -> None:
        """A snapshot, and the engine's memory is free. Raises `SessionTombstoned`."""
        if self._world.present:
            await self._saved()
            await self._snapshot()
        await self._saved()
        await self._world.put_away()

    async def rewound(self, history: History) -> None:
        """The session has gone back: so does the world. Raises as `ensure` does, or `SessionTombstoned`."""
        await self._saved()
        await self._world.put_away()
        self._losses = 0
        await self.ensure()
        await self.discard(history)

    async def _snapshot(self) -> None:
        """Of the world as it is now; taken and written beside what follows."""
        if self._services.snapshots is None or self.point is None:
            return
        save = self._save(self.point, await self._stood(), self._runner.transport_index)
        self._saving = asyncio.create_task(save)
        await asyncio.sleep(0)  # it is asked for: a chunk that is asked for next comes behind it

    async def _save(self, point: Point, stood: Stood | None, transport_index: int) -> None:
        assert self._services.snapshots is not None
        name = self._world.name
        try:
            data = await self._world.snapshot(point.chunks)
            session = await _checkpoint(point, stood, transport_index)
            await self._services.snapshots.save(name, point, data, session)
        except SessionError as error:
            log.warning("no snapshot of %s after %d chunks: %s", name, point.chunks, error)
        except Exception:  # without it a revival takes longer, and that is all
            log.exception("the snapshot of %s after %d chunks broke", name, point.chunks)

    async def _saved(self) -> None:
        """Wait until the last snapshot is written, or could not be; who gives up waiting does not stop it."""
        if self._saving is not None:
            await asyncio.wait([self._saving])

    async def discard(self, history: History | None = None) -> None:
        """Remove the snapshots that nobody can return to: all, or those off the line of `history`."""

        def unusable(point: Point) -> bool:
            return history is None or not history.on_line(point)

        await self._saved()
        await discard_or_warn(self._services.snapshots, self._world.name, unusable)


async def _checkpoint(point: Point, stood: Stood | None, transport_index: int) -> bytes:
    """Where a session stands; nothing where that is another point, or the journal has lost a fact."""
    if stood is None:
        return b""
    if stood.durable is not None:
        await asyncio.wait([stood.durable])
        if stood.durable.cancelled() or stood.durable.exception() is not None:
            return b""
    if stood.standing.chunk_index != point.chunks:
        return b""
    return encode_checkpoint(Checkpoint(point, stood.facts, transport_index, stood.standing))


def _first_missing(history: History, after: int) -> int:
    """The position in the line of the first chunk behind a transport index, in the current epoch."""
    epoch = history.protocol.epoch
    if history.base and after + 1 < history.base_transport_index:
        raise BeforeCheckpoint(f"chunk {after + 1} is wanted again")
    for position, link in enumerate(history.line, history.base):
        if link.begun.tick.epoch == epoch and link.begun.transport_index > after:
            return position
    return history.chunks
