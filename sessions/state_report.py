"""The observer's view of a session's state."""

from __future__ import annotations

from sessions.history import History
from sessions.observer import Observer
from sessions.state import SessionState


class StateReport:
    """Tells the observer of each change of state, once."""

    def __init__(self, observer: Observer, history: History) -> None:
        self._observer = observer
        self._protocol = history.protocol
        self._told = _seen_asleep(history) if history.revived else None

    def moved(self) -> None:
        """The state may have changed."""
        before, after = self._told, self._protocol.state
        if before is not after:
            self._told = after
            self._observer.session_moved(before, after)


def _seen_asleep(history: History) -> SessionState:
    """What a sleeper counted as: a tombstone of a former server as one, all others as suspended."""
    stuck = history.protocol.state is SessionState.CLEANUP_FAILED
    return SessionState.CLEANUP_FAILED if stuck else SessionState.SUSPENDED
