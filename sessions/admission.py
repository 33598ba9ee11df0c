"""Who may have room: at once, or after waiting for it in line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from sessions.clock import Clock
from sessions.errors import CapacityExceeded, Draining, EngineUnavailable
from sessions.limits import Limits
from sessions.line import Line, Place
from sessions.observer import Observer
from sessions.outputs import QueuePosition

T = TypeVar("T")
Told = Callable[[QueuePosition], object]

LOOK_EVERY_S = 0.25  # a session that falls idle tells nobody
SECONDS_A_PLACE = 2.0  # a guess for those who are asked to come back


@dataclass(slots=True, eq=False)
class _Waiter:
    place: Place
    told: Told
    since: float
    look: asyncio.Event = field(default_factory=asyncio.Event)  # something changed
    room: bool = False  # there may be room
    last: QueuePosition | None = None  # what it was told


class Admission:
    """Lets in who asks for room, in an order that is fair between owners; see `Line`.

    Nobody overtakes: while anybody waits, others wait behind, or are refused. `hope` says whether the first
    may try at all: an attempt may carry a picture or a snapshot to the engine, only to be refused.
    """

    def __init__(
        self, clock: Clock, limits: Limits, observer: Observer, hope: Callable[[], bool] = lambda: True
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._observer = observer
        self._hope = hope
        self._line = Line()
        self._waiters: dict[Place, _Waiter] = {}
        self._closed = False

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._line)

    def waiting(self, owner: str | None) -> int:
        """How many of an owner's wait."""
        return self._line.count(owner)

    async def enter(
        self, owner: str | None, attempt: Callable[[], Awaitable[T]], told: Told | None = None
    ) -> T:
        """What `attempt` answers, which raises `CapacityExceeded` where there is no room.

        With `told`, waits for room: it hears of its position at once and at every change. Raises
        `CapacityExceeded` with the position where that is not wanted, the line is full, or it took too long;
        `Draining`, and what `attempt` raises.
        """
        if not self._line:
            try:
                return await attempt()
            except CapacityExceeded as full:
                reason = full.message
        else:
            reason = "others wait for room already"
        if told is None or self.depth >= self._limits.waiting:
            self._observer.line_left("refused", 0.0)
            raise self._refusal(reason, self._line.position_of_next(owner))
        return await self._wait(_Waiter(self._line.join(owner), told, self._clock.now()), attempt)

    def changed(self) -> None:
        """There may be room."""
        if (first := self._line.first) is not None:
            self._try(self._waiters[first])

    def close(self) -> None:
        """Nobody is let in any more: all who wait are refused."""
        self._closed = True
        for waiter in self._waiters.values():
            waiter.look.set()

    async def _wait(self, waiter: _Waiter, attempt: Callable[[], Awaitable[T]]) -> T:
        self._waiters[waiter.place] = waiter
        self._tell()
        outcome = "left"
        try:
            while True:
                await self._turn(waiter)
                try:
                    result = await attempt()
                except (CapacityExceeded, EngineUnavailable):
                    continue  # not yet; an engine that starts again has room in a while
                self._line.served(waiter.place)
                outcome = "admitted"
                return result
        except CapacityExceeded:
            outcome = "timeout"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._line.leave(waiter.place)
            del self._waiters[waiter.place]
            self._observer.line_left(outcome, self._clock.now() - waiter.since)
            self._tell()
            self._next()

    def _next(self) -> None:
        """Another one is first. It does not try at once: who was let in just now has not begun to play, and
        would be put away for it.
        """
        if (first := self._line.first) is not None:
            self._waiters[first].look.set()

    def _try(self, waiter: _Waiter) -> None:
        waiter.room = True
        waiter.look.set()

    async def _turn(self, waiter: _Waiter) -> None:
        """Wait until it is the first, and there may be room. Raises `CapacityExceeded`, `Draining`."""
        latest = waiter.since + self._limits.waiting_s
        while True:
            first, now = self._line.first is waiter.place, self._clock.now()
            when = min(latest, now + LOOK_EVERY_S) if first else latest
            alarm = self._clock.call_at(when, partial(self._try, waiter) if first else waiter.look.set)
            try:
                await waiter.look.wait()
            finally:
                alarm.cancel()
            waiter.look.clear()
            if self._closed:
                raise Draining("the service is shutting down")
            if self._clock.now() >= latest:
                reason = f"waited {self._limits.waiting_s:g} seconds for room"
                raise self._refusal(reason, self._line.position(waiter.place))
            if waiter.room and self._line.first is waiter.place:
                waiter.room = False
                if self._hope():
                    return

    def _tell(self) -> None:
        """Everybody who waits hears where, if that has changed."""
        depth = len(self._line)
        self._observer.line_moved(depth)
        for index, place in enumerate(self._line):
            waiter, position = self._waiters[place], QueuePosition(index + 1, depth)
            if waiter.last != position:
                waiter.last = position
                waiter.told(position)

    def _refusal(self, reason: str, position: int) -> CapacityExceeded:
        seconds = SECONDS_A_PLACE * position
        place = f"{reason}: try again in {seconds:g} seconds"
        return CapacityExceeded(place, position=position, depth=self.depth, retry_after_s=seconds)
