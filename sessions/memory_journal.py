"""A journal that lasts as long as its process: for tests, and where nothing has to survive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from sessions import facts
from sessions.errors import EventIdConflict, JournalError, SequenceConflict
from sessions.facts import Fact
from sessions.journal import KnownEvent, Life, Record


@dataclass(slots=True)
class _Life:
    life: Life
    records: list[Record] = field(default_factory=list)
    events: dict[int, KnownEvent] = field(default_factory=dict)
    names: dict[str, KnownEvent] = field(default_factory=dict)


class MemoryJournal:
    """Implements `Journal` with dicts."""

    def __init__(self) -> None:
        self._lives: dict[str, _Life] = {}

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        """Nothing to close."""

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        """Append at once; the future is done already."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._append(world, expected, fact, at)
        except (JournalError, EventIdConflict) as error:
            written.set_exception(error)
        else:
            written.set_result(None)
        return written

    def hasten(self) -> None:
        """Nothing waits."""

    def _append(self, world: str, expected: int, fact: Fact, at: float) -> None:
        if isinstance(fact, facts.SessionOpened):
            self._open(world, fact, at)
        life = self._lives.get(world)
        if life is None or life.life.closed or len(life.records) != expected:
            raise SequenceConflict(f"fact {expected} of {world} is not the next one")
        if isinstance(fact, facts.EventAccepted):
            self._know(life, KnownEvent(fact.event.event_id, fact.name, fact.digest))
        life.records.append(Record(expected, at, fact))
        closed = isinstance(fact, facts.SessionClosed)
        life.life = replace(life.life, facts=expected + 1, closed=closed)

    def _open(self, world: str, fact: facts.SessionOpened, at: float) -> None:
        if world in self._lives or any(
            entry.life.session_id == fact.session_id and not entry.life.closed
            for entry in self._lives.values()
        ):
            raise SequenceConflict(f"session {fact.session_id!r} is open already")
        self._lives[world] = _Life(Life(world, fact.session_id, at, 0, False))

    def _know(self, life: _Life, known: KnownEvent) -> None:
        if known.event_id in life.events or known.name in life.names:
            raise EventIdConflict(f"event {known.event_id} is taken", field="event_id")
        life.events[known.event_id] = known
        if known.name is not None:
            life.names[known.name] = known

    async def read(self, world: str, after: int = -1, limit: int | None = None) -> list[Record]:
        """A life's facts beyond the number `after`."""
        life = self._lives.get(world)
        records = life.records[after + 1 :] if life else []
        return records[:limit]

    async def event(self, world: str, event_id: int) -> KnownEvent | None:
        """What is known of an event id."""
        life = self._lives.get(world)
        return life.events.get(event_id) if life else None

    async def event_named(self, world: str, name: str) -> KnownEvent | None:
        """What is known of a client's string."""
        life = self._lives.get(world)
        return life.names.get(name) if life else None

    async def latest(self, session_id: str) -> Life | None:
        """The newest life of a session id."""
        lives = [entry.life for entry in self._lives.values() if entry.life.session_id == session_id]
        return lives[-1] if lives else None

    async def open_lives(self) -> list[Life]:
        """Every life that is not closed, oldest first."""
        return [entry.life for entry in self._lives.values() if not entry.life.closed]
