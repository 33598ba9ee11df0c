"""Where a session stands."""

from __future__ import annotations

from enum import StrEnum

from sessions.errors import (
    SessionClosed,
    SessionError,
    SessionFailed,
    SessionSuspended,
    SessionTombstoned,
)


class SessionState(StrEnum):
    """The states of a session's life."""

    ACTIVE = "active"
    FAILED = "failed"  # the engine failed it: reset or close
    SUSPENDED = "suspended"  # alive in its journal
    CLOSING = "closing"
    CLEANUP_FAILED = "cleanup_failed"  # a tombstone: close may be retried
    CLOSED = "closed"


def refusal(state: SessionState, session_id: str, reason: str) -> SessionError | None:
    """Why a session in this state, for this reason, does nothing; None where it is active."""
    name = f"session {session_id!r}"
    match state:
        case SessionState.ACTIVE:
            return None
        case SessionState.FAILED:
            return SessionFailed(f"{name} failed: {reason}")
        case SessionState.SUSPENDED:
            return SessionSuspended(f"{name} was suspended just now: ask again")
        case SessionState.CLEANUP_FAILED:
            return SessionTombstoned(f"{name} could not be closed yet: {reason}")
        case SessionState.CLOSING | SessionState.CLOSED:
            return SessionClosed(f"{name} is {state}")
