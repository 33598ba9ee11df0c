"""Plays a session into its outbox, as its schedule says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sessions.course import Course
from sessions.errors import ChunkAborted, SessionError
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Done, Failed, Output
from sessions.schedule import Schedule
from sessions.services import Services


class Player:
    """Runs chunks until it is told to stop, enough frames are shown, or nobody reads the outbox any more."""

    def __init__(
        self,
        services: Services,
        course: Course,
        schedule: Schedule,
        most_frames: int | None,
        owner: str | None = None,
    ) -> None:
        self._limits = services.limits
        self._observer = services.observer
        self._admission = services.admission
        self._owner = owner
        self.outbox = self._new_outbox()
        self.schedule = schedule
        self.chunks = 0
        self._clock = services.clock
        self._course = course
        self._most_frames = most_frames
        self._stopping = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something happened: look again whether a chunk may begin."""
        self._woken.set()

    def stop(self) -> None:
        """Begin no other chunk."""
        self._stopping = True
        self.wake()

    def take_over(self, first: Iterable[Output]) -> Outbox:
        """Go on into a new outbox that begins with these outputs; the former one, which gets no more."""
        former, self.outbox = self.outbox, self._new_outbox()
        for output in first:
            self.outbox.put(output)
        self.wake()
        return former

    def _new_outbox(self) -> Outbox:
        limits = self._limits
        return Outbox(limits.outbox_bytes, limits.outbox_messages, self.wake, limits.unacked_chunks)

    async def run(self) -> None:
        """Play to the end; exactly one terminal message is in the outbox when this returns."""
        await self._settle()
        while not self.over and await self._due():
            if not self._course.keeper.present and not await self._room():
                continue
            async with self._course.turn:
                await self._chunk()
        self.outbox.put(Done(self.chunks, stopped=not self._complete))

    @property
    def _complete(self) -> bool:
        return self._most_frames is not None and self._course.runner.frames >= self._most_frames

    @property
    def over(self) -> bool:
        """Whether no other chunk begins."""
        ended = self.outbox.terminal is not None or self.outbox.abandoned
        return self._stopping or self._complete or ended

    async def _due(self) -> bool:
        """Wait until a chunk may begin; False when it is all over."""
        while not self.over:
            self._woken.clear()
            now = self._clock.now()
            due = self.schedule.due(now) if self.outbox.has_room else None
            if due is not None and due <= now:
                return True
            alarm = None if due is None else self._clock.call_at(due, self.wake)
            await self._woken.wait()
            if alarm is not None:
                alarm.cancel()
        return False

    async def _room(self) -> bool:
        """Have the world again, after waiting in line where all are busy; False where it came to nothing."""
        entering = asyncio.create_task(
            self._admission.enter(
                self._owner, self._course.revive, lambda position: self.outbox.put(position)
            )
        )
        try:
            while not self.over and not entering.done():
                self._woken.clear()
                woken = asyncio.create_task(self._woken.wait())
                await asyncio.wait({entering, woken}, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        finally:
            entering.cancel()
        await asyncio.wait({entering})
        if entering.cancelled():
            return False
        try:
            entering.result()
        except ChunkAborted:
            return False  # a reset came meanwhile
        except SessionError as error:
            self._give_up(error)
        return not self.over

    async def _settle(self) -> None:
        try:
            await self._course.settle()
        except ChunkAborted:
            return  # a reset has dropped it
        except SessionError as error:
            self._give_up(error)

    async def _chunk(self) -> None:
        now = self._clock.now()
        if self.over or self.schedule.due(now) is None:
            return  # something came between while this waited for its turn
        try:
            await self._course.chunk(self.schedule.take(), self.schedule.slack(now), self._show)
        except ChunkAborted:
            return
        except SessionError as error:
            self._give_up(error)

    def _give_up(self, error: SessionError) -> None:
        """Where the session failed of it, its terminal message is there already."""
        self.outbox.put(Failed.of(error))
        self.stop()

    def _show(self, output: ChunkOutput) -> None:
        self.chunks += 1
        stalled_s = self.schedule.shown(self._clock.now(), output)
        if stalled_s > 0:
            self._observer.underrun(stalled_s)
        self.outbox.put(output)
