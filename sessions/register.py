"""Which sessions there are, in memory and asleep, and which of them make room for others."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence

from sessions.errors import (
    CapacityExceeded,
    SessionClosed,
    SessionError,
    SessionExists,
    SessionSuspended,
    SessionTombstoned,
    UnknownSession,
)
from sessions.info import SessionInfo
from sessions.limits import Limits
from sessions.session import Session
from sessions.sleepers import Sleepers
from sessions.state import SessionState

log = logging.getLogger(__name__)


class Register:
    """By session id. `opening` and `waking` hold those that will be in memory soon, `closing` those that are
    closed in their sleep.
    """

    def __init__(self, limits: Limits, sleepers: Sleepers) -> None:
        self.live: dict[str, Session] = {}
        self.opening: dict[str, asyncio.Task[Session]] = {}
        self.waking: dict[str, asyncio.Task[Session]] = {}
        self.closing: dict[str, asyncio.Task[None]] = {}
        self.sleepers = sleepers
        self.on_gone: Callable[[], object] = lambda: None  # called when one has left memory
        self._limits = limits
        self._gone: OrderedDict[str, None] = OrderedDict()  # ids closed lately

    # Finding

    def get(self, session_id: str) -> Session:
        """The session in memory; raises `SessionSuspended`, `SessionClosed`, `UnknownSession`."""
        session = self.live.get(session_id)
        if session is not None:
            return session
        if session_id in self.sleepers:
            raise SessionSuspended(f"session {session_id!r} is suspended", field="session_id")
        if session_id in self._gone:
            raise SessionClosed(f"session {session_id!r} is closed", field="session_id")
        raise UnknownSession(session_id)

    def asleep(self, session_id: str) -> bool:
        """Whether it has to be woken before it is used."""
        return session_id not in self.live and session_id in self.sleepers

    def closed_lately(self, session_id: str) -> bool:
        """Whether it is remembered as closed."""
        return session_id in self._gone

    def in_memory_of(self, owner: str | None) -> list[str]:
        """The ids of an owner's that are in memory."""
        return [session.session_id for session in self.live.values() if session.spec.owner == owner]

    def free_id(self, asked: str) -> str:
        """The id, where a new session may have it; raises `SessionExists`, `SessionTombstoned`."""
        session = self.live.get(asked)
        stuck = session is not None and session.info().state is SessionState.CLEANUP_FAILED
        if stuck or self.sleepers.is_tombstone(asked):
            raise SessionTombstoned(f"session {asked!r} could not be closed yet: its id is blocked")
        if session is not None or asked in self.opening or asked in self.sleepers:
            raise SessionExists(asked)
        return asked

    async def info(self, session_id: str) -> SessionInfo:
        """Where a session stands; a suspended one sleeps on. Raises as `get` does, and `JournalError`."""
        if self.asleep(session_id):
            return await self.sleepers.info(session_id)
        return self.get(session_id).info()

    async def list(
        self, state: SessionState | None, owner: str | None, after: str | None, limit: int
    ) -> list[SessionInfo]:
        """In the order of their ids, beyond the id `after`; one that can't be read is left out."""
        ids = sorted({*self.live, *self.sleepers})
        found: list[SessionInfo] = []
        for session_id in ids[bisect_right(ids, after) if after else 0 :]:
            if len(found) == limit:
                break
            try:
                info = await self.info(session_id)
            except SessionError as error:
                log.warning("session %s is not listed: %s", session_id, error)
                continue
            if (state is None or info.state is state) and (owner is None or info.spec.owner == owner):
                found.append(info)
        return found

    # Coming and going

    def add(self, session: Session) -> None:
        """A session is in memory."""
        self.live[session.session_id] = session
        self._gone.pop(session.session_id, None)

    def remove(self, session: Session) -> None:
        """It was suspended or closed."""
        info = session.info()
        if self.live.get(session.session_id) is session:
            del self.live[session.session_id]
        if info.state is SessionState.SUSPENDED:
            self.sleepers.add(session.session_id, info.world, info.opened_at)
        else:
            self.remember(session.session_id)
        self.on_gone()

    def remember(self, session_id: str) -> None:
        """It is closed for good."""
        self._gone[session_id] = None
        if len(self._gone) > self._limits.remembered_ids:
            self._gone.popitem(last=False)

    # Room

    async def make_place(self) -> None:
        """Let one session more be in memory, where need be in place of one that nobody plays or watches.

        Raises `CapacityExceeded`.
        """
        while len({*self.live, *self.opening, *self.waking}) > self._limits.sessions:
            idle = [session for session in self._idle() if not session.watched]
            if not idle:
                raise CapacityExceeded(f"{self._limits.sessions} sessions are open: close one, or try later")
            try:
                await idle[0].suspend("evicted")
            except SessionTombstoned as error:  # it is not idle any more: the next one is tried
                log.warning("session %s could not be put away: %s", idle[0].session_id, error)

    async def make_room(self) -> bool:
        """Put an idle session's world away for another one; False where there is none."""
        for session in self._idle():
            try:
                if await session.evict():
                    return True
            except SessionTombstoned as error:
                log.warning("session %s could not be put away: %s", session.session_id, error)
        return False

    def _idle(self) -> Sequence[Session]:
        """Sessions whose world may be put away, the least recently used first."""
        idle = [session for session in self.live.values() if session.evictable]
        return sorted(idle, key=lambda session: session.used_at)
