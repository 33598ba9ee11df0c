"""What tests of a session do over and over."""

from __future__ import annotations

from session_fixtures import keys

from sessions import facts
from sessions.events import Event
from sessions.journal import Journal
from sessions.session import Session


def press(event_id: int, *pressed: str) -> Event:
    return Event(event_id, None, (keys(*pressed),))


async def facts_of(journal: Journal, session: Session) -> list[facts.Fact]:
    return [record.fact for record in await journal.read(session.info().world)]


async def frames(session: Session, chunks: int) -> list[bytes]:
    return [frame for _ in range(chunks) for frame in (await session.run_chunk()).media.frames]
