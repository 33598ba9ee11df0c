"""Where snapshots of worlds lie, so that a session outlives its engine: a cache of what the journal implies.

A session without a snapshot is recomputed from its first chunk, so losing one costs time and never a world.
The implementation is `sessions.folder_snapshots`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sessions.errors import StorageUnavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A moment of a life: after `chunks` committed chunks of an epoch. Points rise with time, as a reset and
    a rewind begin a new epoch.
    """

    epoch: int
    chunks: int


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot whose checksum was right when it was read. `data` is for `Engine.restore_world`."""

    world: str
    point: Point
    data: bytes = field(repr=False)


class Kept(StrEnum):
    """What stores keep."""

    SNAPSHOT = "snapshot"
    RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a store let go of to stay within its bounds, and why.

    `for_room`: all of them together had become too large. Otherwise its world has newer ones.
    """

    kind: Kept
    world: str
    what: str  # e.g. "snapshot at epoch 0, 16 chunks"
    bytes: int
    reason: str
    for_room: bool


def any_point(_: Point) -> bool:
    """Every point will do."""
    return True


class SnapshotStore(Protocol):
    """All calls are made from one event loop; none blocks it. Each may raise `StorageUnavailable`."""

    def tell(self, listener: Callable[[Pruned], None]) -> None:
        """Before `start`: who hears of each one that is pruned, on the event loop."""

    async def start(self) -> None:
        """Look at what is there; unfinished writes are removed."""

    async def stop(self) -> None:
        """Write what waits; idempotent."""

    async def save(self, world: str, point: Point, data: bytes, session: bytes = b"") -> None:
        """Keep a snapshot in place of one of the same point, then prune what is too much. Once awaited it
        survives kill -9; a write that is cut short leaves what was there before. `session` is kept beside it:
        where the world's session stood."""

    async def session(self, world: str) -> bytes | None:
        """What the newest snapshot that is whole keeps of its session; the world itself is not read."""

    async def newest(self, world: str, usable: Callable[[Point], bool] = any_point) -> StoredSnapshot | None:
        """The snapshot at the last usable point that is whole; a damaged one is logged, removed and passed
        over. `usable` says which points lie on the way to where the caller wants to go."""

    async def points(self, world: str) -> list[Point]:
        """The points that have a snapshot, rising; they are not read."""

    async def discard(self, world: str, unusable: Callable[[Point], bool] = any_point) -> None:
        """Remove snapshots: of a closed life all, after a reset or rewind those that nobody can return to."""


async def discard_or_warn(
    store: SnapshotStore | None, world: str, unusable: Callable[[Point], bool] = any_point
) -> None:
    """Discard in whatever store there is; snapshots that can't be removed are no reason to fail."""
    if store is not None:
        try:
            await store.discard(world, unusable)
        except StorageUnavailable as error:
            log.warning("old snapshots of %s were not removed: %s", world, error)
