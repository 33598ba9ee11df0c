"""The way of an event into a session: within quotas, frozen, judged, made durable, and only then taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.api import Control
from sessions import facts
from sessions.entry import Entry, make_entry
from sessions.errors import SessionError
from sessions.events import Acceptance, Event
from sessions.journal import KnownEvent
from sessions.names import RecentNames
from sessions.pen import Pen
from sessions.protocol import SessionProtocol
from sessions.services import Services
from sessions.standing import Standing
from sessions.tasks import to_the_end


@dataclass(frozen=True, slots=True)
class Stood:
    """Where a session stands, and how many of its life's facts lead there.

    `durable` is done once they are durable, and failed where the journal has lost one of them; None where
    nothing was written since the session was woken.
    """

    standing: Standing
    facts: int
    durable: asyncio.Future[None] | None


class Intake:
    """Takes one event at a time, in the order of the calls; `taken` hears of each new one.

    Events count among those of `owner`. Whoever holds `lock` keeps the journal's order and the protocol's
    the same: a reset takes it too.
    """

    def __init__(
        self,
        services: Services,
        owner: str | None,
        protocol: SessionProtocol,
        pen: Pen,
        taken: Callable[[int], None],
        all_names_known: bool = True,
    ) -> None:
        self.lock = asyncio.Lock()
        self._services = services
        self._owner = owner
        self._protocol = protocol
        self._pen = pen
        self._taken = taken
        self._names = RecentNames(complete=all_names_known)

    async def take(self, event: Event) -> Acceptance:
        """Take an event under its integer id; durable when this returns. On an error nothing has changed."""
        self._check_quotas()
        return await to_the_end(self._take(event))

    async def take_named(
        self, name: str | None, prompt: str | None, controls: tuple[Control, ...]
    ) -> tuple[Acceptance, str]:
        """Take an interaction as the next integer id; also the id as the client knows it."""
        self._check_quotas()
        return await to_the_end(self._take_named(name, prompt, controls))

    async def stood(self) -> Stood | None:
        """Where the session stands; None where that is not between chunks."""
        async with self.lock:  # no event is on its way
            standing = self._protocol.standing()
            return None if standing is None else Stood(standing, self._pen.count, self._pen.durable())

    async def _take(self, event: Event) -> Acceptance:
        with self._observed():
            entry = make_entry(event, arrived=self._services.clock.now())
            async with self.lock:
                return await self._admit(entry, await self._digest(event.event_id))

    async def _take_named(
        self, name: str | None, prompt: str | None, controls: tuple[Control, ...]
    ) -> tuple[Acceptance, str]:
        arrived = self._services.clock.now()
        with self._observed():
            async with self.lock:
                known = None if name is None else await self._named(name)
                event_id = known.event_id if known else self._protocol.next_event_id
                entry = make_entry(Event(event_id, prompt, controls), name, arrived)
                return await self._admit(entry, known.digest if known else None), entry.label

    async def _admit(self, entry: Entry, known_digest: str | None) -> Acceptance:
        acceptance = self._protocol.judge(entry, known_digest)
        if acceptance is Acceptance.ACCEPTED:
            accepted = facts.EventAccepted(entry.event, entry.digest, entry.name)
            with self._services.meter.accepting(self._owner):
                await self._pen.write(accepted)
            self._protocol.enqueue(entry)
            self._names.add(KnownEvent(entry.event.event_id, accepted.name, accepted.digest))
            self._taken(entry.event.event_id)
        self._services.observer.event_taken(acceptance.value)
        return acceptance

    def _check_quotas(self) -> None:
        """Raise `RateLimited` where the owner sends events too fast."""
        with self._observed():
            self._services.meter.check_event(self._owner)

    @contextmanager
    def _observed(self) -> Iterator[None]:
        try:
            yield
        except SessionError as error:
            self._services.observer.event_taken(error.code)
            raise

    async def _digest(self, event_id: int) -> str | None:
        if not self._protocol.knows_of(event_id):
            return None
        known = await self._services.journal.event(self._protocol.world, event_id)
        return known.digest if known else None

    async def _named(self, name: str) -> KnownEvent | None:
        known = self._names.get(name)
        if known is None and not self._names.complete:
            known = await self._services.journal.event_named(self._protocol.world, name)
        return known
