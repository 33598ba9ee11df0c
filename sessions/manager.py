"""All sessions of one server."""

from __future__ import annotations

from collections.abc import Mapping

from engine.api import Engine, ModelCard, Reducer
from sessions.clock import Clock, MonotonicClock
from sessions.info import SessionInfo
from sessions.journal import Journal
from sessions.limits import Limits
from sessions.observer import Observer
from sessions.session import Session
from sessions.spec import SessionSpec
from sessions.state import SessionState


class SessionManager:
    """Creates, finds and closes sessions. `reducers` maps a control track to its reducer."""

    card: ModelCard | None  # None until the engine is ready

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
        self._clock = clock or MonotonicClock()
        raise NotImplementedError

    async def start(self) -> ModelCard:
        """Open the journal and start the engine (may take minutes). Raises `JournalError`, `EngineError`."""
        raise NotImplementedError

    async def create(self, spec: SessionSpec) -> Session:
        """Open a world and its session; durable when this returns.

        Raises `InvalidSpec`, `InvalidControl` (the script), `SessionExists`, `SessionTombstoned`,
        `CapacityExceeded`, `EngineUnavailable`, `JournalUnavailable`, `Draining`; then nothing is left of it.
        """
        raise NotImplementedError

    def get(self, session_id: str) -> Session:
        """The live (or failed, or tombstoned) session; raises `SessionClosed` or `UnknownSession`."""
        raise NotImplementedError

    def list(
        self,
        *,
        state: SessionState | None = None,
        owner: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[SessionInfo]:
        """Sessions in the order of their ids, after the id `after`."""
        raise NotImplementedError

    async def close(self, session_id: str, reason: str = "closed") -> None:
        """Close a session; idempotent. Raises `UnknownSession`, `SessionTombstoned`."""
        raise NotImplementedError

    async def stop(self, reason: str = "shutdown") -> None:
        """Take no new sessions, close all, stop engine and journal; idempotent."""
        raise NotImplementedError
