"""The open worlds of a worker. Used by the device's thread alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from engine.api import (
    CapacityReached,
    CloseFailed,
    EngineError,
    OpenWorld,
    SnapshotRefused,
    UnknownWorld,
    WorldLedger,
    WorldRefused,
)
from engine.worker.host import Host, HostWorld

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Room:
    """An open world with the request that made it."""

    request: OpenWorld
    world: HostWorld


class Rooms:
    """Opens, copies, resets and closes worlds; whatever a model raises leaves as an `EngineError`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rooms: dict[str, Room] = {}
        self._tombstones: set[str] = set()  # rooms whose close failed: nothing but another close is theirs

    def __contains__(self, world: str) -> bool:
        return world in self._rooms

    def __getitem__(self, world: str) -> Room:
        if world in self._tombstones:
            raise EngineError(f"closing world {world} failed: it can only be closed again")
        try:
            return self._rooms[world]
        except KeyError:
            raise UnknownWorld(f"no world {world}") from None

    def open(self, request: OpenWorld) -> None:
        """Make a world. Raises `WorldRefused`, `CapacityReached`, or `EngineError` where the model raised."""
        self._make(request, lambda: self._host.open(request))

    def restore(self, request: OpenWorld, snapshot: bytes) -> None:
        """Make a world from a snapshot. Raises `SnapshotRefused` too."""
        self._make(request, lambda: self._host.restore(request, snapshot))

    def fork(self, source: str, request: OpenWorld) -> None:
        """Make a world from one that is open. Raises `UnknownWorld` and `SnapshotRefused` too."""
        world = self[source].world
        self._make(request, lambda: world.fork(request))

    def snapshot(self, world: str) -> tuple[int, Callable[[], bytes]]:
        """A world's committed chunks, and what packs its copy. Raises `UnknownWorld`, or `EngineError` where
        the model raised.
        """
        room = self[world]
        try:
            return room.world.chunks, room.world.snapshot()
        except Exception as error:
            raise EngineError(f"world {world} could not be copied: {describe(error)}") from error

    def ledger(self, world: str) -> WorldLedger:
        """What a world's caches hold, or what is remembered of a closed one. Raises `UnknownWorld`, or
        `EngineError` where the facts break their own rules.
        """
        try:
            ledger = self._host.ledger(world)
        except Exception as error:
            raise EngineError(f"the ledger of world {world} can't be read: {describe(error)}") from error
        if not ledger.facts:
            self[world]
        return ledger

    def _make(self, request: OpenWorld, make: Callable[[], HostWorld]) -> None:
        if request.world in self._rooms:
            raise WorldRefused("world", f"world {request.world} is open already")
        try:
            world = make()
        except (WorldRefused, SnapshotRefused, CapacityReached):
            raise
        except Exception as error:
            raise EngineError(f"world {request.world} could not be opened: {describe(error)}") from error
        self._rooms[request.world] = Room(request, world)

    def reset(self, world: str) -> None:
        """Back to the first frame. Raises `UnknownWorld`, or `EngineError` where the model raised."""
        room = self[world]
        try:
            room.world.reset()
        except Exception as error:
            raise EngineError(f"world {world} could not be reset: {describe(error)}") from error

    def close(self, world: str) -> None:
        """Release a world; idempotent. Raises `CloseFailed` and keeps the world where the model raised."""
        room = self._rooms.get(world)
        if room is None:
            return
        try:
            room.world.close()
        except Exception as error:
            self._tombstones.add(world)
            raise CloseFailed(f"world {world} was not released: {describe(error)}") from error
        del self._rooms[world]
        self._tombstones.discard(world)

    def close_all(self) -> None:
        """Release what is left, as far as the model lets it."""
        for world in tuple(self._rooms):
            try:
                self.close(world)
            except CloseFailed as error:
                log.error("%s", error, exc_info=error.__cause__)
        self._rooms.clear()


def describe(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
