"""The journal's interface."""

from __future__ import annotations

from typing import Protocol


class Journal(Protocol):
    """Holds the facts of all sessions. Implementations: `sessions.memory_journal`, `sessions.sql_journal`."""

    async def start(self) -> None:
        """Open it; raises `JournalUnavailable`."""

    async def stop(self) -> None:
        """Write what waits, and close it; idempotent."""
