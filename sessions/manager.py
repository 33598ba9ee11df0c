"""All sessions of one server."""

from __future__ import annotations

import asyncio
import logging
import uuid
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from engine.api import Engine, EngineState, ModelCard, Reducer
from sessions import facts
from sessions.clock import Clock, MonotonicClock
from sessions.controls import check_control
from sessions.errors import (
    CapacityExceeded,
    Draining,
    EngineUnavailable,
    InvalidControl,
    InvalidEvent,
    InvalidSpec,
    SequenceConflict,
    SessionClosed,
    SessionError,
    SessionExists,
    SessionTombstoned,
    UnknownSession,
)
from sessions.events import frozen_control
from sessions.frozen import frozen_text
from sessions.info import SessionInfo
from sessions.journal import Journal
from sessions.limits import Limits
from sessions.observer import Observer
from sessions.pen import Pen
from sessions.services import Services
from sessions.session import Session
from sessions.spec import SessionSpec
from sessions.state import SessionState
from sessions.world import World

log = logging.getLogger(__name__)


class SessionManager:
    """Creates, finds and closes sessions. `reducers` maps a control track to its reducer."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        reducers: Mapping[str, Reducer],
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.card: ModelCard | None = None  # None until the engine is ready
        self._engine = engine
        self._journal = journal
        self._reducers = reducers
        self._clock = clock or MonotonicClock()
        self._limits = limits or Limits()
        self._observer = observer or Observer()
        self._sessions: dict[str, Session] = {}
        self._opening: dict[str, asyncio.Task[Session]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()  # ids closed lately
        self._background: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._losing = False

    async def start(self) -> ModelCard:
        """Open the journal and start the engine (may take minutes). Raises `JournalError`, `EngineError`."""
        await self._journal.start()
        await self._end_leftovers()
        self.card = await self._engine.start()
        return self.card

    async def _end_leftovers(self) -> None:
        """Sessions that a former server left open: their worlds went with it."""
        for life in await self._journal.open_lives():
            pen = Pen(self._journal, life.world, self._clock, life.facts)
            await pen.write(facts.SessionClosed("server_restart"))

    async def create(self, spec: SessionSpec) -> Session:
        """Open a world and its session; durable when this returns.

        Raises `InvalidSpec`, `InvalidControl` (the script), `SessionExists`, `SessionTombstoned`,
        `CapacityExceeded`, `EngineUnavailable`, `JournalError`, `Draining`; then nothing is left of it.
        """
        asked_at = self._clock.now()
        services = self._services()
        spec = self._checked(spec)
        session_id = self._free_id(spec.session_id)
        opening = asyncio.create_task(self._open(services, session_id, spec, asked_at))
        self._opening[session_id] = opening
        opening.add_done_callback(lambda _: self._opening.pop(session_id))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_unwanted)
            raise

    def get(self, session_id: str) -> Session:
        """The live (or failed, or tombstoned) session; raises `SessionClosed` or `UnknownSession`."""
        self._notice_loss()
        session = self._sessions.get(session_id)
        if session is not None:
            return session
        if session_id in self._gone:
            raise SessionClosed(f"session {session_id!r} is closed", field="session_id")
        raise UnknownSession(session_id)

    def list(
        self,
        *,
        state: SessionState | None = None,
        owner: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[SessionInfo]:
        """Sessions in the order of their ids, beyond the id `after`."""
        self._notice_loss()
        ids = sorted(self._sessions)
        found: list[SessionInfo] = []
        for session_id in ids[bisect_right(ids, after) if after else 0 :]:
            if len(found) == limit:
                break
            info = self._sessions[session_id].info()
            if (state is None or info.state is state) and (owner is None or info.spec.owner == owner):
                found.append(info)
        return found

    async def close(self, session_id: str, reason: str = "closed") -> None:
        """Close a session; idempotent. Raises `UnknownSession`, `SessionTombstoned`, `JournalError`."""
        session = self._sessions.get(session_id)
        if session is not None:
            await session.close(reason)
        elif session_id not in self._gone and await self._journal.latest(session_id) is None:
            raise UnknownSession(session_id)

    async def stop(self, reason: str = "shutdown") -> None:
        """Take no new sessions, close all, stop engine and journal; idempotent."""
        self._stopping = True
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        closing = [session.close(reason) for session in self._sessions.values()]
        for failure in await asyncio.gather(*closing, return_exceptions=True):
            if failure is not None:
                log.warning("a session could not be closed at the end: %s", failure)
        await self._engine.stop()
        await self._journal.stop()

    # Opening

    def _services(self) -> Services:
        """What a new session shares with the others; raises where none can be opened now."""
        if self._stopping:
            raise Draining("the service is shutting down")
        self._notice_loss()
        status = self._engine.status()
        if self.card is None or status.state is not EngineState.READY:
            raise EngineUnavailable(f"the engine is {status.state}: {status.reason or 'try again'}")
        if len(self._sessions) + len(self._opening) >= self._limits.sessions:
            raise CapacityExceeded(f"{self._limits.sessions} sessions are open: close one, or try later")
        return Services(
            self._engine,
            self.card,
            self._journal,
            self._reducers,
            self._clock,
            self._limits,
            self._observer,
            new_id,
        )

    def _checked(self, spec: SessionSpec) -> SessionSpec:
        """The spec with its script frozen; raises `InvalidSpec` and `InvalidControl`."""
        try:
            frozen_text(spec.prompt, "prompt")
            if spec.script is None:
                return spec
            script = frozen_control(spec.script, "script")
        except InvalidControl:
            raise
        except InvalidEvent as error:
            raise InvalidSpec(error.message, field=error.field) from error
        check_control(script, self._reducers, "script")
        return replace(spec, script=script)

    def _free_id(self, asked: str | None) -> str:
        if asked is None:
            return new_id()
        session = self._sessions.get(asked)
        if session is not None and session.info().state is SessionState.CLEANUP_FAILED:
            raise SessionTombstoned(f"session {asked!r} could not be closed yet: its id is blocked")
        if session is not None or asked in self._opening:
            raise SessionExists(asked)
        return asked

    async def _open(self, services: Services, session_id: str, spec: SessionSpec, asked_at: float) -> Session:
        world = World(services, new_id())
        await world.open(spec)
        pen = Pen(self._journal, world.name, self._clock)
        try:
            await pen.write(facts.SessionOpened(session_id, world.name, spec))
        except SessionError as error:
            await self._release(world)
            if isinstance(error, SequenceConflict):
                raise SessionExists(session_id) from error
            raise
        session = Session(
            services,
            world,
            pen,
            session_id,
            spec,
            asked_at=asked_at,
            closed=self._forget,
            lost=self._lose,
            notice_loss=self._notice_loss,
        )
        self._sessions[session_id] = session
        self._gone.pop(session_id, None)
        return session

    async def _release(self, world: World) -> None:
        try:
            await world.release(asyncio.Lock())
        except SessionTombstoned as failure:
            log.error("a world that never got its session could not be released: %s", failure)

    def _close_unwanted(self, opening: asyncio.Task[Session]) -> None:
        """Whoever asked for the session has gone."""
        if not opening.cancelled() and opening.exception() is None:
            closing = asyncio.create_task(opening.result().close("abandoned"))
            self._background.add(closing)
            closing.add_done_callback(self._ended)

    def _ended(self, closing: asyncio.Task[None]) -> None:
        self._background.discard(closing)
        if not closing.cancelled() and (failure := closing.exception()):
            log.error("an abandoned session could not be closed: %s", failure)

    # Endings

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.session_id, None)
        self._gone[session.session_id] = None
        if len(self._gone) > self._limits.remembered_ids:
            self._gone.popitem(last=False)

    def _notice_loss(self) -> None:
        """An engine that is not ready any more has lost its worlds, even where nobody waited for one."""
        status = self._engine.status()
        if self.card is not None and status.state is not EngineState.READY and not self._stopping:
            self._lose(status.reason or f"the engine is {status.state}")

    def _lose(self, reason: str) -> None:
        """The engine was lost: every session's world went with it."""
        if not self._losing:
            self._losing = True  # a session that fails of it says so again
            for session in self._sessions.values():
                session.fail(EngineUnavailable(reason))
            self._losing = False


def new_id() -> str:
    """An id that no one can guess or meet again."""
    return uuid.uuid4().hex
