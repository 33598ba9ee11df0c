"""How a session leaves the engine: put aside for others, suspended, closed, or because it can't go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sessions import facts
from sessions.audience import Audience
from sessions.course import Course
from sessions.epochs import Epochs
from sessions.errors import SessionError, SessionExpired, SessionSuspended, SessionTombstoned
from sessions.intake import Intake
from sessions.outputs import Done, Evicted, Failed
from sessions.pen import Pen
from sessions.protocol import SessionProtocol
from sessions.seat import Seat
from sessions.services import Services
from sessions.state import SessionState
from sessions.tasks import outlasting
from sessions.world import World

ALIVE = (SessionState.ACTIVE, SessionState.FAILED)


class Ending:
    """Of one session. `moved` hears of each change of state, `gone` of the last one."""

    def __init__(
        self,
        services: Services,
        world: World,
        protocol: SessionProtocol,
        pen: Pen,
        intake: Intake,
        course: Course,
        epochs: Epochs,
        seat: Seat,
        audience: Audience,
        *,
        moved: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        self._services = services
        self._world = world
        self._protocol = protocol
        self._pen = pen
        self._intake = intake
        self._course = course
        self._epochs = epochs
        self._seat = seat
        self._audience = audience
        self._moved = moved
        self._gone = gone
        self._suspending: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def suspending(self) -> asyncio.Task[None] | None:
        """While it is being suspended: what does that."""
        running = self._suspending is not None and not self._suspending.done()
        return self._suspending if running else None

    def require_alive(self) -> None:
        """Raise the state's refusal; whoever comes while it is being suspended has to wake it behind that."""
        self._protocol.require_alive()
        if self.suspending is not None:
            session_id = self._protocol.session_id
            raise SessionSuspended(f"session {session_id!r} is being suspended: ask again")

    @property
    def evictable(self) -> bool:
        """Whether the engine has its world, and nothing is under way or due."""
        busy = self._course.turn.locked() or self._epochs.lock.locked() or self._protocol.flight is not None
        due = self._seat.due(self._services.clock.now())
        return self._protocol.state in ALIVE and self._world.present and not busy and not due

    def fail(self, error: SessionError) -> None:
        """The session can't go on: its stream ends, and it can be reset or closed."""
        protocol = self._protocol
        if protocol.state is not SessionState.ACTIVE:
            return
        at = (protocol.epoch, protocol.chunk_index)
        protocol.fail(error.message)
        self._moved()
        self._pen.note(facts.SessionFailed(*at, error.code, error.message))
        self._break_streams(error)

    def expire(self) -> None:
        """See `Session.expire`."""
        most = self._services.limits.lifetime_s
        self._break_streams(SessionExpired(f"a session lives for {most:g} seconds at most"))

    async def evict(self) -> bool:
        """See `Session.evict`."""
        if not self.evictable:
            return False
        async with self._course.turn:
            await self._course.keeper.put_away()
        self._seat.tell(Evicted())
        self._pen.note(facts.SessionSuspended("evicted"))
        return True

    async def suspend(self, reason: str) -> None:
        """See `Session.suspend`."""
        if self.suspending is None:
            name = f"suspend {self._protocol.session_id}"
            self._suspending = asyncio.create_task(self._suspend(reason), name=name)
        assert self._suspending is not None
        await outlasting(self._suspending)

    async def _suspend(self, reason: str) -> None:
        if self._protocol.state not in ALIVE:
            return
        self._end_streams()
        await self._world.cancel()
        async with self._epochs.lock, self._course.turn:
            if self._protocol.state in ALIVE:
                await self._course.keeper.put_away()
            if self._protocol.state not in ALIVE:
                return  # a close came meanwhile
            self._protocol.suspend()
            self._moved()
        async with self._intake.lock:  # events that were on their way are written
            await asyncio.wait([self._pen.note(facts.SessionSuspended(reason))])
        self._gone()

    async def close(self, reason: str) -> None:
        """See `Session.close`."""
        if self._protocol.state in (SessionState.CLOSED, SessionState.SUSPENDED):
            return
        if self._closing is None or self._closing.done():
            name = f"close {self._protocol.session_id}"
            self._closing = asyncio.create_task(self._close(reason), name=name)
        await outlasting(self._closing)

    async def _close(self, reason: str) -> None:
        async with self._course.runner.showing:
            self._protocol.begin_close()
        self._moved()
        self._end_streams()
        try:
            await self._world.release(self._course.turn)
        except SessionTombstoned as failure:
            self._protocol.end_close(failure.message)
            self._moved()
            self._pen.note(facts.CleanupFailed(failure.message))
            raise
        self._protocol.end_close()
        self._moved()
        await asyncio.wait([self._pen.note(facts.SessionClosed(reason))])
        await self._course.keeper.discard()
        self._services.observer.session_closed(reason)
        self._gone()

    def _break_streams(self, error: SessionError) -> None:
        failed = Failed.of(error)
        self._seat.end(failed)
        self._audience.end(failed)

    def _end_streams(self) -> None:
        self._seat.end(Done(self._seat.chunks, stopped=True))
        self._audience.end(Done(0, stopped=True))
