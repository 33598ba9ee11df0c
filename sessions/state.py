"""Where a session stands."""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """The states of a session's life."""

    ACTIVE = "active"
    FAILED = "failed"  # the engine failed it: reset or close
    SUSPENDED = "suspended"  # alive in its snapshot
    CLOSING = "closing"
    CLEANUP_FAILED = "cleanup_failed"  # a tombstone: close may be retried
    CLOSED = "closed"
