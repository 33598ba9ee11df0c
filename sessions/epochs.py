"""Going back in a session: to its first frame, to an earlier chunk, or as another session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from sessions import facts
from sessions.course import Course
from sessions.errors import (
    EngineTimeout,
    JournalError,
    NoSuchChunk,
    SessionClosed,
    SessionError,
    SessionFailed,
    SessionSuspended,
    SessionTombstoned,
)
from sessions.history import History
from sessions.intake import Intake
from sessions.outputs import ResetDone, Rewound
from sessions.pen import Pen
from sessions.protocol import SessionProtocol
from sessions.seat import Seat
from sessions.services import Services
from sessions.spec import SessionSpec
from sessions.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a fork begins. `world` is the source's, where that stands at just this point."""

    spec: SessionSpec  # the source's own
    origin: facts.Origin
    world: World | None


class Epochs:
    """Of one session; whoever holds `lock` is going back."""

    def __init__(
        self,
        services: Services,
        world: World,
        protocol: SessionProtocol,
        pen: Pen,
        intake: Intake,
        course: Course,
        seat: Seat,
        *,
        fail: Callable[[SessionError], None],
    ) -> None:
        self.lock = asyncio.Lock()
        self._services = services
        self._world = world
        self._protocol = protocol
        self._pen = pen
        self._intake = intake
        self._course = course
        self._seat = seat
        self._fail = fail

    async def reset(self, resume: bool) -> ResetDone:
        """See `Session.reset`."""
        async with self.lock:
            try:
                done = await self._restart(resume)
            except (SessionClosed, SessionTombstoned, SessionSuspended):
                raise
            except SessionError as error:
                self._fail(error)
                raise
        self._seat.tell(done)
        self._seat.wake()
        await self._course.keeper.discard()
        return done

    async def _restart(self, resume: bool) -> ResetDone:
        async with self._intake.lock:
            async with self._course.runner.showing:
                discarded = self._protocol.reset(resume)
                self._new_epoch(resume)
            done = ResetDone(self._protocol.epoch, discarded)
            try:
                await self._pen.write(facts.SessionReset(done.epoch, resume))
            except JournalError:
                self._protocol.reset_lost()
                raise
        await self._world.reset(self._course.turn)
        self._protocol.require_alive()  # a close may have come meanwhile
        self._protocol.reset_done()
        return done

    async def rewind(self, chunks: int) -> Rewound:
        """See `Session.rewind`."""
        async with self.lock:
            self._protocol.require_alive()
            await self._world.cancel()
            async with self._turn():
                await self._course.keeper.ensure()  # a shown chunk is committed before
                return await self._go_back(chunks)

    async def _go_back(self, chunks: int) -> Rewound:
        async with self._intake.lock:
            history = await self._history(chunks, "to_chunk")
            conditions = history.conditions_at(chunks)
            fact = facts.SessionRewound(self._protocol.epoch + 1, chunks, conditions)
            await self._pen.write(fact)
            history.follow(fact)
            self._protocol.require_alive()
            self._protocol.rewind(chunks, conditions)
            self._new_epoch(resume=False)
        done = Rewound(self._protocol.epoch, chunks)
        self._seat.tell(done)
        try:
            await self._course.keeper.rewound(history)
        except SessionFailed as failure:
            self._fail(failure)
            raise
        self._seat.wake()
        return done

    async def fork(self, chunks: int | None, make: Callable[[Fork], Awaitable[T]]) -> T:
        """See `Session.fork`."""
        async with self._turn():
            self._protocol.require_alive()
            if self._protocol.flight is not None and (chunks is None or chunks > self._protocol.chunk_index):
                await self._course.keeper.ensure()  # a shown chunk is committed before
            head = self._protocol.chunk_index
            at = head if chunks is None else chunks
            if (fork := await self._fork_at_head(at)) is not None:
                return await make(fork)
            history = await self._history(at, "at_chunk")
            source = self._world if at == head and self._world.present else None
            world, epoch = history.place_at(at) or (self._world.name, self._protocol.epoch)
            conditions = history.conditions_at(at)
            origin = facts.Origin(
                self._protocol.session_id, world, epoch, at, history.floor_at(at), conditions
            )
            return await make(Fork(history.spec, origin, source))

    async def _fork_at_head(self, chunks: int) -> Fork | None:
        """Where the newest chunk is one of this very world, nothing has to be looked up but the opening."""
        point, protocol, name = self._course.keeper.point, self._protocol, self._world.name
        if point is None or not self._world.present or not point.chunks == chunks == protocol.chunk_index:
            return None
        [opening] = await self._services.journal.read(name, limit=1)
        await self._pen.settled()  # the fork's history is read from a journal that has the commit
        assert isinstance(opening.fact, facts.SessionOpened), "a life begins with its opening"
        origin = facts.Origin(
            protocol.session_id, name, point.epoch, chunks, protocol.floor, protocol.conditions
        )
        return Fork(opening.fact.spec, origin, self._world)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        turn, longest = self._course.turn, self._services.limits.reset_s
        try:
            async with asyncio.timeout(longest):
                await turn.acquire()
        except TimeoutError:
            raise EngineTimeout(f"the chunk in flight took longer than {longest:g} s") from None
        try:
            yield
        finally:
            turn.release()

    def _new_epoch(self, resume: bool) -> None:
        self._course.restart()
        self._seat.restart(resume)

    async def _history(self, chunks: int, field: str) -> History:
        """The session's history; raises `NoSuchChunk` where it has fewer chunks."""
        head, archive = self._protocol.chunk_index, self._services.archive
        if not 0 <= chunks <= head:
            raise NoSuchChunk(f"{field} is {chunks}: {head} chunks are committed", field=field)
        await self._pen.settled()
        history = await archive.recent(self._world.name)
        return await archive.whole(self._world.name) if chunks < history.base else history
