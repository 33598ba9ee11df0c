"""What one session writes into the journal with: it keeps the number of the next fact."""

from __future__ import annotations

import asyncio
import logging

from sessions.clock import Clock
from sessions.errors import SessionError
from sessions.facts import Fact
from sessions.journal import Journal

log = logging.getLogger(__name__)


class Pen:
    """Numbers facts in the order of the calls. After a failed write it goes back to the lost number.

    Until then what is written behind that fails too, as its number can't be the next one: none is skipped.
    """

    def __init__(self, journal: Journal, world: str, clock: Clock, next_number: int = 0) -> None:
        self._journal = journal
        self._world = world
        self._clock = clock
        self._next = next_number
        self._last: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """How many facts there are once all that is on its way is written."""
        return self._next

    @property
    def last(self) -> asyncio.Future[None] | None:
        """Done once all that was written up to now is durable; it failed where any of that was lost."""
        return self._last

    async def write(self, fact: Fact) -> None:
        """Append; durable when this returns. Raises the journal's errors."""
        await self.write_soon(fact)

    def write_soon(self, fact: Fact) -> asyncio.Future[None]:
        """Append, in its place; awaiting the future waits until it is durable."""
        number = self._next
        self._next += 1
        written = self._last = self._journal.append(self._world, number, fact, self._clock.wall())
        if written.done():
            self._check(written, number)
        else:
            written.add_done_callback(lambda done: self._check(done, number))
        return written

    def note(self, fact: Fact) -> asyncio.Future[None]:
        """Record what has happened anyway: where the journal can't, a warning is all that follows."""
        written = self.write_soon(fact)
        written.add_done_callback(_warn_if_lost)
        return written

    def _check(self, written: asyncio.Future[None], number: int) -> None:
        if written.cancelled():
            return
        if isinstance(written.exception(), SessionError):
            self._next = min(self._next, number)


def _warn_if_lost(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()):
        log.warning("a fact was not journalled: %s", error)
