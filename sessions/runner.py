"""Runs one chunk at a time: it commits whole, or leaves no trace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from engine.api import (
    ChunkCancelled,
    ChunkCommitted,
    ChunkReady,
    EncodedChunk,
    EngineError,
    EngineLost,
    StageTimes,
    Tick,
    UnknownWorld,
)
from sessions import facts
from sessions.engine_errors import as_session_error
from sessions.entry import Entry
from sessions.errors import (
    ChunkAborted,
    EchoMismatch,
    JournalError,
    JournalUnavailable,
    SessionError,
    SessionFailed,
    WorldLost,
)
from sessions.history import Link
from sessions.observer import ChunkTimes
from sessions.outputs import ChunkOutput
from sessions.pen import Pen
from sessions.protocol import SessionProtocol
from sessions.services import Services

log = logging.getLogger(__name__)

Show = Callable[[ChunkOutput], object]


@dataclass(slots=True)
class _Run:
    """One chunk under way. `trouble` is ours: the engine is still listened to until it has finished."""

    tick: Tick
    entries: tuple[Entry, ...]
    show: Show
    began: float
    ready: ChunkReady | None = None
    output: ChunkOutput | None = None
    committed: bool = False
    trouble: SessionError | None = None


class ChunkRunner:
    """The chunks of one session. `fail` is called with the error that ends its play, and a chunk is committed
    once `recorded` has come to its end.

    `showing` is held from the writing of a chunk's tick until its pixels have left: who drops the chunk in
    flight takes it, so that the journal names no chunk that nobody got.
    """

    def __init__(
        self,
        services: Services,
        protocol: SessionProtocol,
        pen: Pen,
        recorded: Callable[[], Awaitable[None]],
        fail: Callable[[SessionError], None],
        transport_index: int = 0,
    ) -> None:
        self._services = services
        self._protocol = protocol
        self._pen = pen
        self._fail = fail
        self._recorded = recorded
        self.transport_index = transport_index  # the next chunk's
        self.unfinished: ChunkOutput | None = None  # was shown when its world was lost
        self.showing = asyncio.Lock()
        self._previous_commit_ms: float | None = None
        self._landed: asyncio.Future[bool] | None = None  # done when no chunk runs: whether it was committed
        self.frames = self._frames_of(protocol.chunk_index)  # shown in this epoch
        self.last_chunk: ChunkTimes | None = None
        self._first_asked: float | None = None  # when the first chunk was asked for, until it is shown

    def ask(self, opening_s: float) -> None:
        """A stream or a chunk is asked for, of a session that took `opening_s` to open."""
        if self.transport_index == 0 and self._first_asked is None:
            self._first_asked = self._services.clock.now() - opening_s

    def restart(self) -> None:
        """A new epoch begins."""
        self.frames = self._frames_of(self._protocol.chunk_index)
        self._previous_commit_ms = None

    async def settled(self) -> None:
        """Return once every commit is in the journal, which can be read then. Raises `JournalUnavailable`."""
        await self._pen.settled()

    async def landed(self) -> bool:
        """Wait until the chunk that runs has come to its end; whether it was committed."""
        return self._landed is not None and await asyncio.shield(self._landed)

    async def run(self, event_ids: Collection[int] | None, slack_s: float | None, show: Show) -> ChunkOutput:
        """One chunk with these events (None: all pending); `show` gets it as soon as its tick is durable.

        Raises `ChunkAborted` where it was rolled back, `WorldLost` where it has to be run again (it is
        `unfinished` where it was shown), `SessionFailed` where that failed the session, and what
        `SessionProtocol.begin` does. `JournalUnavailable` where its tick could not be written: then the
        engine may have committed it, and the session has not.
        """
        began = self._services.clock.now()
        self.ask(0.0)  # where nobody did: the first event of a stepped stream
        tick = self._begin(event_ids)
        assert self._protocol.flight is not None
        run = _Run(tick, self._protocol.flight.entries, show, began)
        self.unfinished = None
        self._landed = asyncio.get_running_loop().create_future()
        try:
            return await self._follow(run, slack_s)
        except SessionError as error:
            self._services.observer.chunk_aborted(error.code)
            raise
        finally:
            self._landed.set_result(run.committed)

    def _begin(self, event_ids: Collection[int] | None) -> Tick:
        try:
            return self._protocol.begin(self._services.new_id(), event_ids)
        except SessionError:
            raise
        except Exception as bug:  # a reducer's: it would raise at every chunk
            log.exception("the events of session %s could not be applied", self._protocol.session_id)
            failure = SessionFailed(f"the events of the chunk could not be applied: {bug!r}")
            self._fail(failure)
            raise failure from bug

    async def _follow(self, run: _Run, slack_s: float | None) -> ChunkOutput:
        try:
            async for answer in self._services.engine.run_chunk(run.tick, slack_s):
                if run.trouble is None and self._protocol.is_current(run.tick):
                    await self._take(run, answer)
        except EngineError as error:
            if run.committed and run.output is not None:
                return run.output
            raise self._aborted(run, error) from error
        except Exception as bug:
            log.exception("chunk %d of session %s broke", run.tick.chunk_index, run.tick.session_id)
            run.trouble = SessionFailed(f"the engine broke its contract: {bug!r}")
            raise self._aborted(run, None) from bug
        if run.output is None or not run.committed:
            raise self._aborted(run, None)
        return run.output

    async def _take(self, run: _Run, answer: ChunkReady | ChunkCommitted) -> None:
        try:
            if isinstance(answer, ChunkReady):
                async with self.showing:
                    await self._ready(run, answer)
            else:
                await self._recorded()
                if self._protocol.is_current(run.tick):
                    self._committed(run, answer)
        except (EchoMismatch, JournalError) as error:
            run.trouble = error

    async def _ready(self, run: _Run, answer: ChunkReady) -> None:
        marks = self._protocol.ready(answer.tick)
        run.ready = answer
        index, media = self.transport_index, answer.media
        await self._pen.write(facts.ChunkBegun(run.tick, media.digest, index))
        if not self._protocol.is_current(run.tick):
            return  # the session failed while it was written
        self.transport_index += 1
        self._protocol.show()
        run.output = ChunkOutput(
            tick=run.tick,
            media=media,
            times=answer.times,
            previous_commit_ms=self._previous_commit_ms,
            started_event_ids=marks.started,
            active_event_ids=marks.active,
            completed_event_ids=marks.completed,
            transport_index=index,
            media_time=media.first_frame / media.fps,
        )
        self.frames = media.first_frame + len(media.frames)
        run.show(run.output)
        self._observe_shown(run.entries)

    def _committed(self, run: _Run, answer: ChunkCommitted) -> None:
        assert run.ready is not None and run.output is not None, "an engine is ready before it commits"
        self._protocol.commit(answer.tick)
        run.committed = True
        self._note_commit(run.tick, run.ready.media.digest)
        self._previous_commit_ms = answer.commit_ms
        total_ms = (self._services.clock.now() - run.began) * 1000
        self.last_chunk = ChunkTimes(run.ready.times, answer.commit_ms, total_ms)
        told = self._services.observer.chunk_committed  # once the next chunk was asked for: nobody waits
        asyncio.get_running_loop().call_soon(told, self.last_chunk)

    def _note_commit(self, tick: Tick, digest: str) -> None:
        fact = facts.ChunkCommitted(tick.epoch, tick.chunk_index, tick.event_ids, digest)
        self._pen.owe(fact).add_done_callback(self._written)

    def recommit(self, link: Link) -> None:
        """The shown chunk in flight was run again in another world."""
        flight = self._protocol.flight
        assert flight is not None and flight.tick == link.begun.tick, "the shown chunk is run again"
        self._protocol.commit(flight.tick)
        self._note_commit(flight.tick, link.begun.frames_digest)

    def again(self, link: Link, media: EncodedChunk) -> ChunkOutput:
        """A chunk that was shown before, as it is shown again; nobody measured it."""
        marks = link.marks
        return ChunkOutput(
            tick=link.begun.tick,
            media=media,
            times=StageTimes(0.0, 0.0, 0.0, 0.0),
            previous_commit_ms=None,
            started_event_ids=marks.started,
            active_event_ids=marks.active,
            completed_event_ids=marks.completed,
            transport_index=link.begun.transport_index,
            media_time=media.first_frame / media.fps,
        )

    def _frames_of(self, chunks: int) -> int:
        card = self._services.card
        return card.first_chunk_frames + (chunks - 1) * card.chunk_frames if chunks else 0

    def _written(self, written: asyncio.Future[None]) -> None:
        """What follows a fact that got lost can't be trusted, so the session ends with it; but a commit that
        was not written yet is owed, and where it is never written, the chunk is run again.
        """
        error = None if written.cancelled() else written.exception()
        if isinstance(error, SessionError) and not isinstance(error, JournalUnavailable):
            self._fail(error)

    def _aborted(self, run: _Run, error: EngineError | None) -> SessionError:
        """Why a chunk did not come about; fails the session unless it was just cancelled or swept away."""
        if not self._protocol.is_current(run.tick) and run.trouble is None:
            return self._swept_away(run.tick)
        if isinstance(error, EngineLost | UnknownWorld) and run.trouble is None:
            if self._protocol.can_cancel():
                self._protocol.rollback()
            self.unfinished = run.output
            return WorldLost(str(error))
        if isinstance(error, ChunkCancelled) and self._protocol.can_cancel():
            self._protocol.rollback()
            return ChunkAborted(f"chunk {run.tick.chunk_index} was cancelled")
        if isinstance(run.trouble, JournalUnavailable) and self._withheld(run.tick):
            return run.trouble  # a full disk or a lost database: the session goes on when that has passed
        trouble = run.trouble or (as_session_error(error) if error else None)
        failure = trouble or SessionFailed("the engine ended a chunk without committing it")
        self._fail(failure)
        return failure

    def _withheld(self, tick: Tick) -> bool:
        """Whether nothing of it has left, and nothing will."""
        return self._protocol.is_current(tick) and self._protocol.withhold()

    def _swept_away(self, tick: Tick) -> SessionError:
        try:
            self._protocol.require_alive()
        except SessionError as state:
            return state
        return ChunkAborted(f"chunk {tick.chunk_index} was given up: the session was reset")

    def _observe_shown(self, entries: tuple[Entry, ...]) -> None:
        now, observer = self._services.clock.now(), self._services.observer
        if self._first_asked is not None:
            observer.first_chunk(now - self._first_asked)
            self._first_asked = None
        for entry in entries:
            observer.control_to_frame(now - entry.arrived)
