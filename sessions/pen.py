"""What one session writes into the journal with: it keeps the number of the next fact."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sessions.clock import Clock
from sessions.errors import JournalUnavailable, SequenceConflict, SessionError
from sessions.facts import Fact
from sessions.journal import Journal

log = logging.getLogger(__name__)


class Pen:
    """Numbers facts in the order of the calls. After a failed write it goes back to the lost number.

    Until then what is written behind that fails too, as its number can't be the next one: none is skipped.
    What is owed and could not be written is written before the next fact.
    """

    def __init__(self, journal: Journal, world: str, clock: Clock, next_number: int = 0) -> None:
        self._journal = journal
        self._world = world
        self._clock = clock
        self._next = next_number
        self._last: asyncio.Future[None] | None = None
        self._owed: Fact | None = None  # could not be written
        self._owing: asyncio.Future[None] | None = None  # the last write of what is owed

    @property
    def count(self) -> int:
        """How many facts there are once all that is on its way is written."""
        return self._next

    def durable(self) -> asyncio.Future[None] | None:
        """Done once all that was written up to now is durable, which is hastened; it failed where any of that
        was lost.
        """
        self._journal.hasten()
        return self._last

    async def write(self, fact: Fact) -> None:
        """Append; durable when this returns. Raises the journal's errors."""
        await self.write_soon(fact)

    def write_soon(self, fact: Fact) -> asyncio.Future[None]:
        """Append, in its place; awaiting the future waits until it is durable."""
        if self._owed is not None:
            self._owe(self._owed)
        owing = self._owing
        if owing is None or (owing.done() and not isinstance(_loss(owing), JournalUnavailable)):
            return self._append(fact)
        if owing.done():
            return _failed(_loss(owing))
        return _behind(owing, self._append(fact))

    def owe(self, fact: Fact) -> asyncio.Future[None]:
        """Append what is so whether it can be written now or not: an unusable journal gets it later."""
        if self._owed is not None:
            return self.write_soon(fact)
        return self._owe(fact)

    async def settled(self) -> None:
        """Return once nothing is owed: then the journal holds all that is so. Raises `JournalError`."""
        owing = self._owing if self._owed is None else self._owe(self._owed)
        if owing is not None:
            self._journal.hasten()
            await asyncio.wait([owing])
            if isinstance(loss := _loss(owing), JournalUnavailable):
                raise loss

    def note(self, fact: Fact) -> asyncio.Future[None]:
        """Record what has happened anyway: where the journal can't, a warning is all that follows."""
        written = self.write_soon(fact)
        written.add_done_callback(_warn_if_lost)
        return written

    def _owe(self, fact: Fact) -> asyncio.Future[None]:
        self._owed, self._owing = None, self._append(fact)
        _when_done(self._owing, lambda written: self._keep_owed(written, fact))
        return self._owing

    def _append(self, fact: Fact) -> asyncio.Future[None]:
        number = self._next
        self._next += 1
        written = self._last = self._journal.append(self._world, number, fact, self._clock.wall())
        _when_done(written, lambda done: self._check(done, number))
        return written

    def _check(self, written: asyncio.Future[None], number: int) -> None:
        if not written.cancelled() and isinstance(written.exception(), SessionError):
            self._next = min(self._next, number)

    def _keep_owed(self, written: asyncio.Future[None], fact: Fact) -> None:
        if isinstance(loss := _loss(written), JournalUnavailable):
            log.warning("a fact will be journalled later: %s", loss)
            self._owed = fact


def _when_done(written: asyncio.Future[None], call: Callable[[asyncio.Future[None]], None]) -> None:
    if written.done():
        call(written)
    else:
        written.add_done_callback(call)


def _loss(written: asyncio.Future[None]) -> BaseException | None:
    return None if written.cancelled() else written.exception()


def _failed(error: BaseException | None) -> asyncio.Future[None]:
    assert error is not None
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(error)
    return failed


def _behind(owing: asyncio.Future[None], written: asyncio.Future[None]) -> asyncio.Future[None]:
    """`written`; but where it only missed the number that was lost with `owing`, it failed of the same."""
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(_: asyncio.Future[None]) -> None:
        if result.done():
            return
        loss = _loss(written)
        if isinstance(loss, SequenceConflict) and isinstance(_loss(owing), JournalUnavailable):
            loss = _loss(owing)
        if loss is None:
            result.set_result(None)
        else:
            result.set_exception(loss)

    _when_done(written, settle)
    return result


def _warn_if_lost(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()):
        log.warning("a fact was not journalled: %s", error)
