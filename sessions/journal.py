"""The journal: append-only facts of every session's life, with optimistic concurrency.

A life is one session instance, named by its world id. Its facts are numbered 0, 1, 2 ...; whoever appends
says which number it expects, so that of two writers one loses. Implementations: `sessions.memory_journal` and
`sessions.sql_journal`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from sessions.facts import Fact


@dataclass(frozen=True, slots=True)
class Record:
    """A fact with its number and the time of its writing, in Unix seconds."""

    sequence: int
    at: float
    fact: Fact


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """What is remembered of every event that was ever accepted in a life."""

    event_id: int
    name: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a session id. `facts` is how many it has: the number that the next one gets."""

    world: str
    session_id: str
    opened_at: float
    facts: int
    closed: bool


class Journal(Protocol):
    """All calls are made from one event loop; none blocks it. Every one may raise `JournalUnavailable`."""

    async def start(self) -> None:
        """Open it."""

    async def stop(self) -> None:
        """Write what waits, and close it; idempotent."""

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        """Append; durable (it survives kill -9) once awaited. Calls take effect in the order they are made.

        `SessionOpened` begins a life, `SessionClosed` ends it. The future fails with `SequenceConflict` where
        `expected` is not the next number, the life is closed, or its session id already has an open one; with
        `EventIdConflict` where the event's id or name is taken.

        A `ChunkCommitted` may be kept for a moment, to be written with whatever comes next: without it a
        shown chunk is run again.
        """

    def hasten(self) -> None:
        """Somebody waits for what has been appended up to now: write it."""

    async def read(self, world: str, after: int = -1, limit: int | None = None) -> list[Record]:
        """A life's facts beyond the number `after`, in order; raises `JournalCorrupt`."""

    async def event(self, world: str, event_id: int) -> KnownEvent | None:
        """What is known of an event id."""

    async def event_named(self, world: str, name: str) -> KnownEvent | None:
        """What is known of a client's string."""

    async def latest(self, session_id: str) -> Life | None:
        """The newest life of a session id."""

    async def open_lives(self) -> list[Life]:
        """Every life that is not closed, oldest first."""
