"""Journals that refuse facts, and those that are slow to keep them."""

from __future__ import annotations

import asyncio

from sessions.errors import JournalUnavailable
from sessions.facts import Fact
from sessions.memory_journal import MemoryJournal


class FullJournal(MemoryJournal):
    """Refuses facts while it is `full`: those of one kind, or all."""

    def __init__(self, kind: type[Fact] | None = None, *, full: bool = True) -> None:
        super().__init__()
        self._kind = kind
        self.full = full

    def _append(self, world: str, expected: int, fact: Fact, at: float) -> None:
        if self.full and (self._kind is None or isinstance(fact, self._kind)):
            raise JournalUnavailable("the disk is full")
        super()._append(world, expected, fact, at)


class SlowFacts(MemoryJournal):
    """Facts of one kind are durable once `written` is set."""

    def __init__(self, slow: type[Fact]) -> None:
        super().__init__()
        self._slow = slow
        self.written = asyncio.Event()

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        if not isinstance(fact, self._slow):
            return super().append(world, expected, fact, at)
        return asyncio.ensure_future(self._later(world, expected, fact, at))

    async def _later(self, world: str, expected: int, fact: Fact, at: float) -> None:
        await self.written.wait()
        await super().append(world, expected, fact, at)
