"""The suspended sessions of a server: alive in the journal, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sessions import facts
from sessions.archive import Archive
from sessions.clock import Clock
from sessions.errors import EngineUnavailable
from sessions.history import History
from sessions.info import SessionInfo, info_of
from sessions.observer import Observer
from sessions.pen import Pen
from sessions.state import SessionState


@dataclass(slots=True)
class Sleeper:
    """One of them; what is known of it is looked up when somebody asks."""

    session_id: str
    world: str
    opened_at: float
    state: SessionState = SessionState.SUSPENDED  # or cleanup_failed: a tombstone of a former server
    info: SessionInfo | None = None


class Sleepers:
    """By session id. Until `start` has read who they are, whether one is there can't be told: asking raises
    `EngineUnavailable`, so that nobody hears of a session that sleeps that there is none.
    """

    def __init__(self, archive: Archive, clock: Clock, observer: Observer) -> None:
        self._journal = archive.journal
        self._archive = archive
        self._clock = clock
        self._observer = observer
        self._sleepers: dict[str, Sleeper] = {}
        self._known = False

    def __contains__(self, session_id: str) -> bool:
        self._require_known()
        return session_id in self._sleepers

    def __iter__(self) -> Iterator[str]:
        self._require_known()
        return iter(self._sleepers)

    def _require_known(self) -> None:
        if not self._known:
            raise EngineUnavailable("the server is starting: its sessions are not known yet, try again")

    async def start(self) -> None:
        """Find the sessions that a former server left open; its tombstones stay what they were."""
        for life in await self._journal.open_lives():
            last = await self._journal.read(life.world, after=life.facts - 2)
            failed = bool(last) and isinstance(last[-1].fact, facts.CleanupFailed)
            state = SessionState.CLEANUP_FAILED if failed else SessionState.SUSPENDED
            self._sleepers[life.session_id] = Sleeper(life.session_id, life.world, life.opened_at, state)
            self._observer.session_moved(None, state)
        self._known = True

    def all(self) -> list[Sleeper]:
        """Every one of them."""
        return list(self._sleepers.values())

    def is_tombstone(self, session_id: str) -> bool:
        """Whether it is one that a former server could not close."""
        sleeper = self._sleepers.get(session_id)
        return sleeper is not None and sleeper.state is SessionState.CLEANUP_FAILED

    def add(self, session_id: str, world: str, opened_at: float) -> None:
        """A session was suspended."""
        self._sleepers[session_id] = Sleeper(session_id, world, opened_at)

    def world_of(self, session_id: str) -> str:
        """Its session instance."""
        return self._sleepers[session_id].world

    async def history(self, session_id: str) -> tuple[History, float]:
        """Its history, and when it was opened. Raises `JournalError`."""
        sleeper = self._sleepers[session_id]
        history = await self._archive.recent(sleeper.world)
        history.revived = True
        return history, sleeper.opened_at

    def woken(self, session_id: str) -> None:
        """It is a session again."""
        self._sleepers.pop(session_id, None)

    async def info(self, session_id: str) -> SessionInfo:
        """Where it stands. Raises `JournalError`."""
        sleeper = self._sleepers[session_id]
        if sleeper.info is None:
            history, opened_at = await self.history(session_id)
            sleeper.info = info_of(history.protocol, history.spec, opened_at, asleep=True)
        return sleeper.info

    async def close(self, session_id: str, reason: str) -> None:
        """It ends without having been woken. Raises `JournalError`."""
        sleeper = self._sleepers[session_id]
        life = await self._journal.latest(session_id)
        if life is not None and life.world == sleeper.world and not life.closed:
            pen = Pen(self._journal, life.world, self._clock, life.facts)
            await pen.write(facts.SessionClosed(reason))
        if self._sleepers.pop(session_id, None) is not None:
            self._observer.session_moved(sleeper.state, SessionState.CLOSED)
            self._observer.session_closed(reason)
