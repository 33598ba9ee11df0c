"""Snapshots and recordings that are kept in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from sessions.errors import StorageUnavailable
from sessions.recordings import START, RecordedChunk
from sessions.snapshots import Point, Pruned, StoredSnapshot, any_point


class MemorySnapshots:
    """Snapshots in a dict; `full` refuses to write, and `data` may be spoiled."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, Point], bytes] = {}
        self.sessions: dict[tuple[str, Point], bytes] = {}
        self.full = False

    def tell(self, listener: Callable[[Pruned], None]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def save(self, world: str, point: Point, data: bytes, session: bytes = b"") -> None:
        if self.full:
            raise StorageUnavailable("no space left on device")
        self.data[world, point] = data
        self.sessions[world, point] = session

    async def session(self, world: str) -> bytes | None:
        kept = [self.sessions.get((world, point)) for point in reversed(await self.points(world))]
        return next(filter(None, kept), None)

    async def newest(self, world: str, usable: Callable[[Point], bool] = any_point) -> StoredSnapshot | None:
        points = [point for point in await self.points(world) if usable(point)]
        return StoredSnapshot(world, points[-1], self.data[world, points[-1]]) if points else None

    async def points(self, world: str) -> list[Point]:
        return sorted(point for name, point in self.data if name == world)

    async def discard(self, world: str, unusable: Callable[[Point], bool] = any_point) -> None:
        for point in await self.points(world):
            if unusable(point):
                del self.data[world, point]


class MemoryRecordings:
    """Recordings in a list."""

    def __init__(self) -> None:
        self.kept: dict[str, list[RecordedChunk]] = {}
        self.full = False

    def tell(self, listener: Callable[[Pruned], None]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def append(self, world: str, chunk: RecordedChunk) -> None:
        if self.full:
            raise StorageUnavailable("no space left on device")
        if chunk not in self.kept.setdefault(world, []):
            self.kept[world].append(chunk)

    async def chunks(self, world: str, since: tuple[int, int] = START) -> AsyncIterator[RecordedChunk]:
        for chunk in self.kept.get(world, []):
            yield chunk

    async def discard(self, world: str) -> None:
        self.kept.pop(world, None)
