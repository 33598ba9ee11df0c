"""How much each owner has had in all, for quotas that outlive a server."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sessions.errors import StorageUnavailable

log = logging.getLogger(__name__)

WRITE_AFTER_S = 1.0


@dataclass(slots=True)
class Total:
    """Of one owner."""

    sessions: int = 0
    events: int = 0


class Usage:
    """In memory alone."""

    def __init__(self) -> None:
        self._totals: dict[str | None, Total] = {}

    async def start(self) -> None:
        """Read what is known. Raises `StorageUnavailable`."""

    async def stop(self) -> None:
        """Write what is not written yet."""

    def sessions(self, owner: str | None) -> int:
        """Sessions that were made."""
        return self._totals.get(owner, Total()).sessions

    def events(self, owner: str | None) -> int:
        """Events that were accepted."""
        return self._totals.get(owner, Total()).events

    def add_session(self, owner: str | None) -> None:
        """One more was made."""
        self._totals.setdefault(owner, Total()).sessions += 1
        self._changed()

    def add_event(self, owner: str | None) -> None:
        """One more was accepted."""
        self._totals.setdefault(owner, Total()).events += 1
        self._changed()

    def _changed(self) -> None:
        """Nothing to be written."""


class FileUsage(Usage):
    """In a JSON file, written a second after a change: a server that is killed forgets that much."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._stale = False  # the file lacks something
        self._stopping = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the file, if there is one. Raises `StorageUnavailable` where it can't be understood."""
        try:
            text = await asyncio.to_thread(self._path.read_text, encoding="utf-8")
            self._totals = {owner or None: Total(**total) for owner, total in json.loads(text).items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StorageUnavailable(f"{self._path} can't be read: {error}") from error

    async def stop(self) -> None:
        """Write at once; where that fails, the log says so. Idempotent."""
        self._stopping.set()
        if self._stale:
            self._changed()
        if self._writing is not None:
            await self._writing

    def _changed(self) -> None:
        self._stale = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        while self._stale:
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_AFTER_S):
                    await self._stopping.wait()
            self._stale = False  # what changes from here on is written next time
            try:
                await asyncio.to_thread(self._write, self._text())
            except OSError as error:
                self._stale = True
                log.warning("the totals of quotas were not written, the next change tries again: %s", error)
                return

    def _text(self) -> str:
        totals = {
            owner or "": {"sessions": total.sessions, "events": total.events}
            for owner, total in self._totals.items()
        }
        return json.dumps(totals, indent=1)

    def _write(self, text: str) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._path)
