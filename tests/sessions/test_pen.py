"""Facts get their numbers in the order of the calls, also where the journal can't be written for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from manual_clock import ManualClock
from session_fixtures import SPEC

from sessions import facts
from sessions.errors import JournalUnavailable
from sessions.events import Event
from sessions.facts import Fact
from sessions.memory_journal import MemoryJournal
from sessions.pen import Pen

OPENED = facts.SessionOpened("s", "w", SPEC)
COMMITTED = facts.ChunkCommitted(0, 0, (), "sha")


def event(number: int) -> Fact:
    return facts.EventAccepted(Event(number, "rain"), f"digest-{number}")


class Outages(MemoryJournal):
    """Answers when it is told to, in order; `full` fails what it answers."""

    def __init__(self, prompt: bool) -> None:
        super().__init__()
        self.full = False
        self._prompt = prompt
        self._waiting: list[tuple[asyncio.Future[None], tuple[str, int, Fact, float]]] = []

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((done, (world, expected, fact, at)))
        if self._prompt:
            self.answer()
        return done

    def answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done, asked in waiting:
            error: BaseException | None = JournalUnavailable("full")
            if not self.full:
                error = super().append(*asked).exception()
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)


@pytest.fixture(params=["at once", "later"])
async def journal(request: pytest.FixtureRequest) -> AsyncIterator[Outages]:
    yield Outages(prompt=request.param == "at once")


async def outcome(journal: Outages, written: asyncio.Future[None]) -> BaseException | None:
    journal.answer()
    await asyncio.wait([written])
    return written.exception()


async def recorded(journal: Outages) -> list[Fact]:
    return [record.fact for record in await journal.read("w")]


async def test_what_is_owed_comes_before_what_follows(journal: Outages) -> None:
    pen = Pen(journal, "w", ManualClock())
    assert await outcome(journal, pen.write_soon(OPENED)) is None
    journal.full = True
    assert isinstance(await outcome(journal, pen.owe(COMMITTED)), JournalUnavailable)
    for number in range(3):
        assert isinstance(await outcome(journal, pen.write_soon(event(number))), JournalUnavailable)
    journal.full = False
    assert await outcome(journal, pen.write_soon(event(9))) is None
    assert await recorded(journal) == [OPENED, COMMITTED, event(9)]
    assert pen.count == 3


async def test_who_writes_behind_what_is_lost_hears_why_and_not_that_another_was_first() -> None:
    journal = Outages(prompt=False)
    pen = Pen(journal, "w", ManualClock())
    assert await outcome(journal, pen.write_soon(OPENED)) is None
    journal.full = True
    owed = pen.owe(COMMITTED)
    behind = pen.write_soon(event(1))
    lost, waiting = journal._waiting
    journal._waiting = [lost]
    journal.answer()
    journal.full, journal._waiting = False, [waiting]
    assert isinstance(await outcome(journal, behind), JournalUnavailable)
    assert isinstance(owed.exception(), JournalUnavailable)
    assert await outcome(journal, pen.write_soon(event(2))) is None
    assert await recorded(journal) == [OPENED, COMMITTED, event(2)]


async def test_what_is_lost_and_not_owed_is_gone(journal: Outages) -> None:
    pen = Pen(journal, "w", ManualClock())
    assert await outcome(journal, pen.write_soon(OPENED)) is None
    journal.full = True
    assert isinstance(await outcome(journal, pen.note(event(1))), JournalUnavailable)
    journal.full = False
    assert await outcome(journal, pen.write_soon(event(2))) is None
    assert await recorded(journal) == [OPENED, event(2)]
