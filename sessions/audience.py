"""Everybody who sees what a session shows: its recording, the tape of the last chunks, and watchers."""

from __future__ import annotations

import asyncio
import logging

from sessions.errors import CapacityExceeded, SessionError, WatcherTooSlow
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Failed, Output, Terminal
from sessions.recordings import RecordedChunk
from sessions.services import Services
from sessions.tape import Tape

log = logging.getLogger(__name__)


class Audience:
    """Of the session instance `world`. A watcher never slows the session: one that is too slow is dropped."""

    def __init__(self, services: Services, world: str, tape: Tape) -> None:
        self.tape = tape
        self._world = world
        self._limits = services.limits
        self._observer = services.observer
        self._recordings = services.recordings
        self._watchers: set[Outbox] = set()
        self._recorded: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> int:
        """How many there are."""
        return len(self._watchers)

    def attach(self) -> Outbox:
        """Where a new watcher's outputs appear: the last chunk, and whatever comes.

        It ends with the session, or with a `Failed` for who reads too slowly; call `detach` behind it. Raises
        `CapacityExceeded`.
        """
        if len(self._watchers) >= self._limits.watchers:
            raise CapacityExceeded(f"{self._limits.watchers} watchers are attached: try later")
        outbox = Outbox(self._limits.watcher_bytes, self._limits.outbox_messages, lambda: None)
        if self.tape.last is not None:
            outbox.put(self.tape.last)
        self._watchers.add(outbox)
        return outbox

    def detach(self, outbox: Outbox) -> None:
        """The watcher is gone; idempotent."""
        outbox.abandon()
        self._watchers.discard(outbox)

    def show(self, output: ChunkOutput) -> None:
        """A chunk leaves."""
        self.tape.add(output)
        self.tell(output)
        if self._recordings is not None:
            self._recorded = asyncio.create_task(self._record(output, self._recorded))

    def tell(self, output: Output) -> None:
        """Put it before every watcher who can take it, and drop who can't."""
        for outbox in tuple(self._watchers):
            if outbox.has_room and outbox.statistics().messages < self._limits.outbox_messages:
                outbox.put(output)
            else:
                slow = WatcherTooSlow("chunks come faster than they are read here: attach again")
                outbox.put(Failed.of(slow))
                self._watchers.discard(outbox)
                self._observer.chunks_dropped(slow.code, outbox.statistics().chunks + 1)

    def end(self, terminal: Terminal) -> None:
        """Nothing comes any more."""
        for outbox in self._watchers:
            outbox.put(terminal)
        self._watchers.clear()

    async def recorded(self) -> None:
        """Wait until what was shown is recorded, or could not be."""
        if self._recorded is not None:
            await self._recorded

    async def _record(self, output: ChunkOutput, before: asyncio.Task[None] | None) -> None:
        assert self._recordings is not None
        if before is not None:
            await before
        chunk = RecordedChunk(output.tick.epoch, output.tick.chunk_index, output.media)
        try:
            await self._recordings.append(self._world, chunk)
        except SessionError as error:
            log.warning("chunk %d of %s was not recorded: %s", chunk.chunk_index, self._world, error)
