"""One session: what a client can do with its world."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from engine.api import Control
from sessions import facts
from sessions.errors import (
    AlreadyPlaying,
    EngineUnavailable,
    NotStepped,
    SessionClosed,
    SessionError,
    SessionFailed,
    SessionTombstoned,
    WrongState,
)
from sessions.events import Acceptance, Event
from sessions.info import SessionInfo
from sessions.intake import Intake
from sessions.outbox import Outbox
from sessions.outputs import (
    ChunkOutput,
    Done,
    Failed,
    InteractionQueued,
    InteractionRejected,
    ResetDone,
)
from sessions.pen import Pen
from sessions.player import Player
from sessions.protocol import SessionProtocol
from sessions.runner import ChunkRunner
from sessions.schedule import make_schedule
from sessions.services import Services
from sessions.spec import Mode, SessionSpec
from sessions.state import SessionState
from sessions.tasks import outlasting, to_the_end
from sessions.world import World

log = logging.getLogger(__name__)


class Session:
    """Made by `SessionManager.create`. It runs on one event loop; every call may be made at any time.

    `closed` is called once the world has been released, `lost` when an answer said that the engine is gone;
    `notice_loss` looks whether it is.
    """

    def __init__(
        self,
        services: Services,
        world: World,
        pen: Pen,
        session_id: str,
        spec: SessionSpec,
        *,
        asked_at: float,
        closed: Callable[[Session], None],
        lost: Callable[[str], None],
        notice_loss: Callable[[], None],
    ) -> None:
        self.session_id = session_id
        self.spec = replace(spec, image=None)  # the journal has it
        self._services = services
        self._world = world
        self._pen = pen
        self._closed, self._lost, self._notice_loss = closed, lost, notice_loss
        self._opened_at = services.clock.wall()
        self._opening_s = services.clock.now() - asked_at
        self._protocol = SessionProtocol(
            session_id,
            world.name,
            spec.prompt,
            services.reducers,
            script=spec.script,
            pending_limit=services.limits.pending_events,
        )
        self._state: SessionState | None = None  # as the observer knows it
        self._intake = Intake(services, self._protocol, pen, self._taken)
        self._runner = ChunkRunner(services, self._protocol, pen, self.fail)
        self._turn = asyncio.Lock()  # held while a chunk or a reset has the world
        self._resets = asyncio.Lock()
        self._player: Player | None = None
        self._playing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._moved()

    def info(self) -> SessionInfo:
        """Where it stands now."""
        protocol = self._protocol
        return SessionInfo(
            session_id=self.session_id,
            world=protocol.world,
            state=protocol.state,
            reason=protocol.reason,
            spec=self.spec,
            opened_at=self._opened_at,
            epoch=protocol.epoch,
            chunk_index=protocol.chunk_index,
            event_floor=protocol.floor,
            pending_event_ids=protocol.pending,
            streaming=self._streaming,
            waiting=protocol.waiting,
            last_chunk=self._runner.last_chunk,
        )

    # Events

    async def submit(self, event: Event) -> Acceptance:
        """Take an event with an integer id; durable when this returns.

        Raises `InvalidEvent`, `InvalidControl`, `EventIdConflict`, `StaleEvent`, `QueueFull`,
        `SessionFailed`, `SessionClosed`, `SessionTombstoned`, `JournalError`; then nothing has changed.
        """
        self._notice_loss()
        return await self._intake.take(event)

    async def interact(
        self, name: str | None, prompt: str | None = None, controls: tuple[Control, ...] = ()
    ) -> Acceptance | None:
        """Take an interaction under the client's own string (None: one is made), as the next integer id.

        Puts `InteractionQueued` or `InteractionRejected` into the stream's outbox, and waits while that has
        no room (a client that only writes). None when it was rejected.
        """
        outbox = self._player.outbox if self._player else None
        if outbox is not None:
            await outbox.room_for_message()
        self._notice_loss()
        acceptance: Acceptance | None = None
        answer: InteractionQueued | InteractionRejected
        try:
            acceptance, label = await self._intake.take_named(name, prompt, controls)
            answer = InteractionQueued(label)
        except SessionError as error:
            answer = InteractionRejected(name, error.code, error.message, error.field, error.retryable)
        if outbox is not None:
            outbox.put(answer)
        return acceptance

    # Chunks

    def play(self) -> Outbox:
        """Start the stream and return where its outputs appear, up to exactly one terminal message.

        Continuous: chunks follow one another, paced to media time. Stepped: one now, then one per event.
        A stream that ended may be followed by another. Raises `AlreadyPlaying`, `SessionFailed`,
        `SessionClosed`, `SessionTombstoned`.
        """
        self._require_idle()
        self._runner.ask(self._opening_s)
        chunk_s = self._services.card.chunk_frames / self.spec.fps
        schedule = make_schedule(self.spec, self._protocol, chunk_s)
        player = Player(self._services, self._runner, schedule, self._turn, self.spec.num_frames)
        self._player = player
        self._playing = asyncio.create_task(self._play(player), name=f"play {self.session_id}")
        return player.outbox

    async def run_chunk(self) -> ChunkOutput:
        """Stepped mode without a stream: one chunk with all pending events, committed when this returns.

        Calls take turns. Raises `NotStepped`, `AlreadyPlaying`, `WrongState` (no prompt since a reset;
        num_frames reached), `ChunkAborted`, `SessionFailed`, `SessionClosed`, `SessionTombstoned`,
        `EngineUnavailable`, `JournalError`. A caller that is cancelled cancels its chunk.
        """
        if self.spec.mode is not Mode.STEPPED:
            raise NotStepped(f"session {self.session_id!r} is continuous: open it with mode `stepped`")
        self._require_idle()
        self._runner.ask(self._opening_s)
        chunk = asyncio.create_task(self._step(), name=f"chunk of {self.session_id}")
        try:
            return await outlasting(chunk)
        except asyncio.CancelledError:
            await self._world.cancel()
            raise

    async def cancel(self) -> bool:
        """Roll back the chunk in flight; the stream goes on. Its events are pending again.

        False where there was none, or its pixels had left: then this waits for its commit.
        """
        if self._protocol.flight is None:
            return False
        await self._world.cancel()
        return not await self._runner.landed()

    async def _step(self) -> ChunkOutput:
        while True:
            async with self._resets:
                pass  # a reset that runs comes first
            async with self._turn:
                if not self._resets.locked():
                    return await self._run_step()

    async def _run_step(self) -> ChunkOutput:
        most = self.spec.num_frames
        if most is not None and self._runner.frames >= most:
            raise WrongState(f"all {most} frames are made: reset, or open another session")
        return await self._runner.run(None, None, lambda output: None)

    async def _play(self, player: Player) -> None:
        try:
            await player.run()
        except Exception as bug:
            log.exception("session %s: its player broke", self.session_id)
            self.fail(SessionFailed(f"the stream broke: {bug!r}"))

    # Its course

    async def reset(self, resume: bool = False) -> ResetDone:
        """Back to the first frame; pending events are dropped, by id. Also puts `ResetDone` into the outbox.

        The next chunk waits for a prompt, or with `resume` starts with the opening prompt and script at once.
        Raises `SessionClosed`, `SessionTombstoned`, `EngineUnavailable`, `EngineTimeout`, `SessionFailed`,
        `CapacityExceeded`, `JournalError`; but for the first two, these fail the session.
        """
        return await to_the_end(self._reset(resume))

    async def _reset(self, resume: bool) -> ResetDone:
        async with self._resets:
            try:
                done = await self._restart(resume)
            except (SessionClosed, SessionTombstoned):
                raise
            except SessionError as error:
                self.fail(error)
                raise
        if self._player is not None:
            self._player.outbox.put(done)
            self._player.wake()
        return done

    async def _restart(self, resume: bool) -> ResetDone:
        async with self._intake.lock:
            discarded = self._protocol.reset(resume)
            self._moved()
            self._runner.restart()
            if self._player is not None:
                self._player.schedule.restart(resume)
            done = ResetDone(self._protocol.epoch, discarded)
            await self._pen.write(facts.SessionReset(done.epoch, resume))
        await self._world.reset(self._turn)
        self._protocol.require_alive()  # a close may have come meanwhile
        self._protocol.reset_done()
        return done

    async def stop(self) -> None:
        """End the stream, after rolling back the chunk in flight; idempotent."""
        if self._player is None or self._playing is None:
            return
        self._player.stop()
        await self._world.cancel()
        await outlasting(self._playing)

    async def close(self, reason: str = "closed") -> None:
        """End the stream and release the world; idempotent. May be tried again after `SessionTombstoned`."""
        if self._protocol.state is SessionState.CLOSED:
            return
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._close(reason), name=f"close {self.session_id}")
        await outlasting(self._closing)

    async def _close(self, reason: str) -> None:
        self._protocol.begin_close()
        self._moved()
        if self._player is not None:
            self._player.outbox.put(Done(self._player.chunks, stopped=True))
            self._player.stop()
        try:
            await self._world.release(self._turn)
        except SessionTombstoned as failure:
            self._protocol.end_close(failure.message)
            self._moved()
            self._pen.note(facts.CleanupFailed(failure.message))
            raise
        self._protocol.end_close()
        self._moved()
        await asyncio.wait([self._pen.note(facts.SessionClosed(reason))])
        self._services.observer.session_closed(reason)
        self._closed(self)

    def fail(self, error: SessionError) -> None:
        """The session can't go on: its stream ends, and it can be reset or closed."""
        protocol = self._protocol
        if protocol.state is not SessionState.ACTIVE:
            return
        at = (protocol.epoch, protocol.chunk_index)
        protocol.fail(error.message)
        self._moved()
        self._pen.note(facts.SessionFailed(*at, error.code, error.message))
        if self._player is not None:
            self._player.outbox.put(Failed(error.code, error.message, error.retryable))
            self._player.stop()
        if isinstance(error, EngineUnavailable):
            self._lost(error.message)

    # Parts

    @property
    def _streaming(self) -> bool:
        return self._playing is not None and not self._playing.done()

    def _require_idle(self) -> None:
        self._protocol.require_alive()
        if self._streaming:
            raise AlreadyPlaying(f"session {self.session_id!r} has a stream already")

    def _taken(self, event_id: int) -> None:
        if self._player is not None:
            self._player.schedule.taken(event_id)
            self._player.wake()

    def _moved(self) -> None:
        before, after = self._state, self._protocol.state
        if before is not after:
            self._state = after
            self._services.observer.session_moved(before, after)
