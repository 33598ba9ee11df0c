"""What the stores in a folder share: a thread for their files, and who hears of what they let go of."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from sessions.disk import Disk
from sessions.snapshots import Pruned

log = logging.getLogger(__name__)


class Files(Protocol):
    """A folder; its methods block."""

    @property
    def bytes(self) -> int:
        """What all of its files weigh."""

    def scan(self) -> list[Pruned]:
        """Take stock, and remove what is too much."""


F = TypeVar("F", bound=Files)


class FolderStore(Generic[F]):
    """Looks after `files` in a thread of that `name`; `pruned` is told of what goes, on the event loop."""

    def __init__(self, name: str, files: F, pruned: Callable[[Pruned], None]) -> None:
        self._files = files
        self._listeners = [pruned]
        self._disk = Disk(name)

    def tell(self, listener: Callable[[Pruned], None]) -> None:
        """Tell one more of what is pruned."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Look at what is there."""
        self._tell(await self._disk.do(self._files.scan))

    async def stop(self) -> None:
        """Write what waits; idempotent."""
        await self._disk.stop()

    @property
    def bytes(self) -> int:
        """What all of them weigh."""
        return self._files.bytes

    def _tell(self, gone: list[Pruned]) -> None:
        for pruned in gone:
            for listener in self._listeners:
                listener(pruned)


def log_pruned(pruned: Pruned) -> None:
    """Say in the log what was let go; of what is thinned out as a world goes on, only to who debugs."""
    level = logging.INFO if pruned.for_room else logging.DEBUG
    log.log(
        level,
        "%s of world %s, %d bytes, was removed: %s",
        pruned.what,
        pruned.world,
        pruned.bytes,
        pruned.reason,
    )
