"""What every session showed, as it was encoded: for `video.mp4` and for watchers who come late.

The implementation is `sessions.folder_recordings`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from engine.api import EncodedChunk
from sessions.snapshots import Pruned

START: Final = (0, 0)


@dataclass(frozen=True, slots=True)
class RecordedChunk:
    """One chunk that was shown, where it was shown."""

    epoch: int
    chunk_index: int
    media: EncodedChunk


class RecordingStore(Protocol):
    """All calls are made from one event loop; none blocks it. Each may raise `StorageUnavailable`."""

    def tell(self, listener: Callable[[Pruned], None]) -> None:
        """Before `start`: who hears of each one that is pruned, on the event loop."""

    async def start(self) -> None:
        """Look at what is there."""

    async def stop(self) -> None:
        """Write what waits; idempotent."""

    async def append(self, world: str, chunk: RecordedChunk) -> None:
        """Add a chunk, then prune what is too much. Once awaited it survives kill -9. Calls take effect in
        the order they are made; a chunk that comes again (a recovery repeats the last one) is kept once."""

    def chunks(self, world: str, since: tuple[int, int] = START) -> AsyncIterator[RecordedChunk]:
        """What is recorded of a life, in the order in which it was shown; empty where nothing is. Read piece
        by piece; what is appended meanwhile may be missing. Of what was shown before the chunk `since` (epoch
        and index), only a little is read."""

    async def discard(self, world: str) -> None:
        """Remove a life's recording."""
