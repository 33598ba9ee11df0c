"""One session: what a client can do with its world."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from engine.api import Control
from sessions.audience import Audience
from sessions.comeback import Comeback
from sessions.course import Course
from sessions.ending import Ending
from sessions.epochs import Epochs, Fork
from sessions.errors import NotStepped, SessionError
from sessions.events import Acceptance, Event
from sessions.history import History
from sessions.info import SessionInfo, info_of
from sessions.intake import Intake
from sessions.keeper import Keeper
from sessions.outbox import Outbox
from sessions.outputs import (
    ChunkOutput,
    InteractionQueued,
    InteractionRejected,
    ResetDone,
    Rewound,
)
from sessions.pen import Pen
from sessions.runner import ChunkRunner
from sessions.seat import Seat
from sessions.services import Services
from sessions.spec import Mode
from sessions.state import SessionState
from sessions.state_report import StateReport
from sessions.stepper import Stepper
from sessions.tape import Tape
from sessions.tasks import to_the_end
from sessions.world import World

T = TypeVar("T")


class Session:
    """Made by `SessionManager`, from its history. It runs on one event loop; calls may come at any time.

    `gone` is called once the world has been released, with the session's last state: closed or suspended.
    `deserted` is called when who played has left and did not come back.
    """

    def __init__(
        self,
        services: Services,
        world: World,
        pen: Pen,
        history: History,
        *,
        asked_at: float,
        opened_at: float,
        gone: Callable[[Session], None],
        deserted: Callable[[Session], None],
    ) -> None:
        def fail(error: SessionError) -> None:
            self._ending.fail(error)

        protocol = history.protocol
        self.session_id = protocol.session_id
        self.spec = replace(history.spec, image=None)  # the journal has it
        self.opened_at = opened_at
        self.used_at = services.clock.now()
        self._services = services
        self._world = world
        self._pen = pen
        self._opening_s = services.clock.now() - asked_at
        self._protocol = protocol
        self._report = StateReport(services.observer, history)
        interrupted = history.flight  # a chunk that is shown again once the world is there
        first = interrupted.begun.transport_index if interrupted else history.transport_index
        tape = Tape(services.limits.tape_bytes, complete_from=first)
        self.audience = Audience(services, world.name, tape)
        self._runner = ChunkRunner(
            services, protocol, pen, self.audience.recorded, fail, history.transport_index
        )
        self._keeper = Keeper(
            services, world, protocol, self._runner, self.audience, lambda: self._intake.stood()
        )
        self._course = Course(protocol, self._runner, self._keeper, self.audience, fail)
        self._seat = Seat(
            services,
            self.spec,
            protocol,
            self._course,
            self.audience,
            interrupt=world.cancel,
            broke=fail,
            deserted=lambda: deserted(self),
        )
        new = history.count == 1
        self._intake = Intake(
            services, self.spec.owner, protocol, pen, self._seat.taken_in, all_names_known=new
        )
        self._epochs = Epochs(
            services, world, protocol, pen, self._intake, self._course, self._seat, fail=fail
        )
        self._stepper = Stepper(protocol, world, self._course, self._epochs, self.spec.num_frames)
        self._ending = Ending(
            services,
            world,
            protocol,
            pen,
            self._intake,
            self._course,
            self._epochs,
            self._seat,
            self.audience,
            moved=self._report.moved,
            gone=lambda: gone(self),
        )
        self._comeback = Comeback(
            services, protocol, self._runner, self.audience, self._course, self._seat, self._ending
        )
        self._report.moved()

    def info(self) -> SessionInfo:
        """Where it stands now."""
        return info_of(
            self._protocol,
            self.spec,
            self.opened_at,
            asleep=self.away,
            streaming=self._seat.taken,
            last_chunk=self._runner.last_chunk,
        )

    # Events

    async def submit(self, event: Event) -> Acceptance:
        """Take an event with an integer id; durable when this returns.

        Raises `InvalidEvent`, `InvalidControl`, `EventIdConflict`, `StaleEvent`, `QueueFull`,
        `SessionFailed`, `SessionClosed`, `SessionTombstoned`, `JournalError`; then nothing has changed.
        """
        self._touch()
        return await self._intake.take(event)

    async def interact(
        self, name: str | None, prompt: str | None = None, controls: tuple[Control, ...] = ()
    ) -> Acceptance | None:
        """Take an interaction under the client's own string (None: one is made), as the next integer id.

        Puts `InteractionQueued` or `InteractionRejected` into the stream's outbox, and waits while that has
        no room (a client that only writes). None when it was rejected.
        """
        self._touch()
        outbox = self._seat.outbox
        if outbox is not None:
            await outbox.room_for_message()
        acceptance: Acceptance | None = None
        answer: InteractionQueued | InteractionRejected
        try:
            acceptance, label = await self._intake.take_named(name, prompt, controls)
            answer = InteractionQueued(label)
        except SessionError as error:
            answer = InteractionRejected.of(name, error)
        if outbox is not None:
            outbox.put(answer)
        return acceptance

    # Streams

    def play(self) -> Outbox:
        """Start the stream and return where its outputs appear, up to exactly one terminal message.

        Continuous: chunks follow one another, paced to media time. Stepped: one per event, and one for each
        that the opening script has. A stream that ended may be followed by another. Raises `AlreadyPlaying`,
        `SessionFailed`, `SessionClosed`, `SessionTombstoned`, `SessionSuspended`.
        """
        self._touch()
        self._ending.require_alive()
        if self.spec.mode is Mode.CONTINUOUS:
            self._runner.ask(self._opening_s)
        return self._seat.play()

    async def resume(self, last: int) -> Outbox:
        """Go on behind the transport index `last` (-1: from the first), whoever plays it now.

        The outbox begins with `Resumed` and the chunks that were missed in this epoch. Raises `NoSuchChunk`,
        `ChunksGone`, `TakenOver` (by who came later), `JournalError`, or the state's refusal; then nothing
        has changed.
        """
        self._touch()
        return await self._comeback.resume(last)

    def leave(self, outbox: Outbox) -> None:
        """Whoever read this outbox has gone: after the grace period, the session is deserted. Idempotent."""
        self._touch()
        if left := outbox.statistics().chunks:
            self._services.observer.chunks_dropped("left", left)
        self._seat.leave(outbox)

    async def run_chunk(self) -> ChunkOutput:
        """Stepped mode without a stream: one chunk with all pending events, committed when this returns.

        Calls take turns. Raises `NotStepped`, `AlreadyPlaying`, `WrongState` (no prompt since a reset;
        num_frames reached), `ChunkAborted`, `SessionFailed`, `SessionClosed`, `SessionTombstoned`,
        `EngineUnavailable`, `CapacityExceeded`, `JournalError`. A caller that is cancelled cancels its chunk.
        """
        self._touch()
        if self.spec.mode is not Mode.STEPPED:
            raise NotStepped(f"session {self.session_id!r} is continuous: open it with mode `stepped`")
        self._ending.require_alive()
        self._seat.require_free()
        self._runner.ask(self._opening_s)
        if self.away:
            await self._services.admission.enter(self.spec.owner, self.revive)
        return await self._stepper.chunk()

    async def cancel(self) -> bool:
        """Roll back the chunk in flight; the stream goes on. Its events are pending again.

        False where there was none, or its pixels had left: then this waits for its commit.
        """
        if self._protocol.flight is None or not self._course.turn.locked():
            return False
        await self._world.cancel()
        return not await self._runner.landed()

    # Its course

    async def reset(self, resume: bool = False) -> ResetDone:
        """Back to the first frame; pending events are dropped, by id. Also puts `ResetDone` into the outbox.

        The next chunk waits for a prompt, or with `resume` starts with the opening prompt and script at once.
        Raises `SessionClosed`, `SessionTombstoned`, `EngineTimeout`, `SessionFailed`, `JournalError`; but for
        the first two, these fail the session.
        """
        self._touch()
        try:
            return await to_the_end(self._epochs.reset(resume))
        finally:
            self._report.moved()

    async def rewind(self, chunks: int) -> Rewound:
        """Back to where so many chunks of this world were committed; the stream goes on from there.

        Events keep their ids, and pending ones stay pending. Also puts `Rewound` into the outbox. Raises
        `NoSuchChunk`, `EngineTimeout`, `JournalError`, or the state's refusal, and then nothing has changed;
        `SessionFailed`, `EngineUnavailable` and `CapacityExceeded` where the world could not be brought back.
        """
        self._touch()
        return await to_the_end(self._epochs.rewind(chunks))

    async def revive(self, replay_after: int | None = None) -> None:
        """Have the world in the engine before a chunk asks for it; see `Keeper.ensure`."""
        if self._protocol.state is SessionState.ACTIVE:
            await self._course.revive(replay_after)

    async def fork(self, chunks: int | None, make: Callable[[Fork], Awaitable[T]]) -> T:
        """What `make` does with where the fork begins: after so many chunks (None: all that are committed).

        The world stands still meanwhile. Raises `NoSuchChunk`, `JournalError`, or the state's refusal.
        """
        self._touch()
        return await self._epochs.fork(chunks, make)

    async def stop(self) -> None:
        """End the stream, after rolling back the chunk in flight; idempotent."""
        self._seat.end()
        await self._world.cancel()
        await self._seat.ended()

    async def evict(self) -> bool:
        """Put the world away where nothing is due; it is made again when needed. False where it can't be.

        Raises `SessionTombstoned`.
        """
        return await self._ending.evict()

    @property
    def evictable(self) -> bool:
        """Whether the engine has its world, and nothing is under way or due."""
        return self._ending.evictable

    @property
    def away(self) -> bool:
        """Whether its world has to be made again before its next chunk."""
        return self._protocol.state is SessionState.ACTIVE and not self._world.present

    @property
    def watched(self) -> bool:
        """Whether anybody plays or watches it, or left just now."""
        return self._seat.taken or self._seat.deserted or self.audience.watchers > 0

    async def suspend(self, reason: str) -> None:
        """End the stream and put the world away: the session lives on in its journal, this object does not.

        Raises `SessionTombstoned` where the world could not be put away; then it is as an evicted one.
        """
        await self._ending.suspend(reason)

    async def settled(self) -> None:
        """Where it is being suspended, wait until that has succeeded or not."""
        if (suspending := self._ending.suspending) is not None:
            await asyncio.wait([suspending])

    async def close(self, reason: str = "closed") -> None:
        """End the stream and release the world; idempotent. May be tried again after `SessionTombstoned`."""
        await self._ending.close(reason)

    def expire(self) -> None:
        """Tell who plays and watches it that it is over: it has lived as long as a session may."""
        self._ending.expire()

    # Parts

    def _touch(self) -> None:
        self.used_at = self._services.clock.now()
