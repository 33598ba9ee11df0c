"""Snapshots as files, one per world and point: written beside and renamed, each whole or absent."""

from __future__ import annotations

import hashlib
import logging
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote

from sessions.disk import folder_of
from sessions.errors import StorageUnavailable
from sessions.folder_store import FolderStore, log_pruned
from sessions.snapshots import Kept, Point, Pruned, StoredSnapshot, any_point
from sessions.thinning import superfluous

log = logging.getLogger(__name__)

KEEP: Final = 8
MAX_BYTES: Final = 2 * 2**30

_MAGIC: Final = b"worldline snapshot 2\n"
_HEAD: Final = struct.Struct(">QI32s32s")  # bytes of the data, of the session; their SHA-256s
_START: Final = len(_MAGIC) + _HEAD.size
_SUFFIX, _UNFINISHED = ".snapshot", ".part"


class FolderSnapshots(FolderStore["SnapshotFolder"]):
    """Implements `SnapshotStore` in a folder: `keep` snapshots of each world, `max_bytes` in all.

    Of a world, the newest two stay and the older ones are thinned out evenly, so that a way back to any chunk
    stays short. Where all together are too large, the oldest go first, and the newest of a world last.
    `pruned` is told of each one that goes, on the event loop.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: int = KEEP,
        max_bytes: int = MAX_BYTES,
        pruned: Callable[[Pruned], None] = log_pruned,
    ) -> None:
        super().__init__("snapshots", SnapshotFolder(folder, keep, max_bytes), pruned)

    async def save(self, world: str, point: Point, data: bytes, session: bytes = b"") -> None:
        """Keep a snapshot, then prune what is too much."""
        self._tell(await self._disk.do(lambda: self._files.save(world, point, data, session)))

    async def session(self, world: str) -> bytes | None:
        """What the newest snapshot keeps of its session."""
        return await self._disk.do(lambda: self._files.session(world))

    async def newest(self, world: str, usable: Callable[[Point], bool] = any_point) -> StoredSnapshot | None:
        """The snapshot at the last usable point that is whole."""
        return await self._disk.do(lambda: self._files.newest(world, usable))

    async def points(self, world: str) -> list[Point]:
        """The points that have a snapshot, rising."""
        return await self._disk.do(lambda: self._files.points(world))

    async def discard(self, world: str, unusable: Callable[[Point], bool] = any_point) -> None:
        """Remove snapshots."""
        await self._disk.do(lambda: self._files.discard(world, unusable))


@dataclass(frozen=True, slots=True)
class _File:
    bytes: int
    written: int  # rises from file to file


class SnapshotFolder:
    """The files, for one thread. Every method may raise `OSError`."""

    def __init__(self, folder: Path, keep: int, max_bytes: int) -> None:
        assert keep >= 2, "the newest two always stay"
        self.bytes = 0
        self._root = folder
        self._keep = keep
        self._max_bytes = max_bytes
        self._files: dict[str, dict[Point, _File]] = {}
        self._clock = 0

    def scan(self) -> list[Pruned]:
        """Take stock; remove what a killed process left unfinished, and what is too much."""
        self._root.mkdir(parents=True, exist_ok=True)
        found = []
        for path in self._root.glob("*/*"):
            if path.suffix == _UNFINISHED:
                path.unlink()
            elif (point := _point_of(path)) is not None:
                status = path.stat()
                found.append((status.st_mtime_ns, unquote(path.parent.name), point, status.st_size))
        for _, world, point, size in sorted(found):
            self._enter(world, point, size)
        return self._make_room()

    def save(self, world: str, point: Point, data: bytes, session: bytes = b"") -> list[Pruned]:
        """Write a snapshot; what was pruned for it. Raises `StorageUnavailable` for one beyond the quota."""
        size = _START + len(session) + len(data)
        if size > self._max_bytes:
            raise StorageUnavailable(f"a snapshot of {size} bytes is beyond the {self._max_bytes} of all")
        path = self._path(world, point)
        path.parent.mkdir(parents=True, exist_ok=True)
        sums = hashlib.sha256(data).digest(), hashlib.sha256(session).digest()
        _write(path, _HEAD.pack(len(data), len(session), *sums), session, data)
        self._enter(world, point, size)
        surplus = superfluous(sorted(self._files[world]), self._keep)
        thinned = [self._remove(world, old, f"a world keeps {self._keep}", False) for old in surplus]
        return thinned + self._make_room()

    def newest(self, world: str, usable: Callable[[Point], bool]) -> StoredSnapshot | None:
        """The last usable one that can be read; those that can't are removed."""
        for point in filter(usable, reversed(self.points(world))):
            if (data := self._whole(world, point, _read)) is not None:
                return StoredSnapshot(world, point, data)
        return None

    def session(self, world: str) -> bytes | None:
        """What the last one that keeps a session does; those whose session can't be read are removed."""
        for point in reversed(self.points(world)):
            if session := self._whole(world, point, _read_session):
                return session
        return None

    def _whole(self, world: str, point: Point, read: Callable[[Path], bytes]) -> bytes | None:
        try:
            return read(self._path(world, point))
        except (OSError, ValueError) as error:
            log.warning("%s of world %s is passed over and removed: %s", _named(point), world, error)
            self._remove(world, point, "damaged")
            return None

    def points(self, world: str) -> list[Point]:
        """The points that have a file, rising."""
        return sorted(self._files.get(world, ()))

    def discard(self, world: str, unusable: Callable[[Point], bool]) -> None:
        """Remove the files of these points."""
        for point in filter(unusable, self.points(world)):
            self._remove(world, point, "discarded")

    def _make_room(self) -> list[Pruned]:
        """Older ones go before the newest of each world, the longest written first."""
        gone = []
        while self.bytes > self._max_bytes:
            _, _, world, point = min(
                (point == max(files), file.written, world, point)
                for world, files in self._files.items()
                for point, file in files.items()
            )
            gone.append(self._remove(world, point, f"all snapshots may take {self._max_bytes} bytes"))
        return gone

    def _enter(self, world: str, point: Point, size: int) -> None:
        files = self._files.setdefault(world, {})
        self.bytes += size - (files[point].bytes if point in files else 0)
        self._clock += 1
        files[point] = _File(size, self._clock)

    def _remove(self, world: str, point: Point, reason: str, for_room: bool = True) -> Pruned:
        path, files = self._path(world, point), self._files[world]
        path.unlink(missing_ok=True)
        size = files.pop(point).bytes
        self.bytes -= size
        if not files:
            del self._files[world]
            with suppress(OSError):  # something else lies there
                path.parent.rmdir()
        return Pruned(Kept.SNAPSHOT, world, _named(point), size, reason, for_room)

    def _path(self, world: str, point: Point) -> Path:
        return folder_of(self._root, world) / f"{point.epoch}-{point.chunks}{_SUFFIX}"


def _named(point: Point) -> str:
    return f"the snapshot at epoch {point.epoch}, {point.chunks} chunks"


def _point_of(path: Path) -> Point | None:
    epoch, _, chunks = path.stem.partition("-")
    if path.suffix != _SUFFIX or not (epoch.isdecimal() and chunks.isdecimal()):
        return None
    return Point(int(epoch), int(chunks))


def _write(path: Path, head: bytes, session: bytes, data: bytes) -> None:
    """All or nothing, also where the process is killed or the disk is full."""
    unfinished = path.with_suffix(_UNFINISHED)
    try:
        with unfinished.open("wb") as file:
            file.writelines((_MAGIC, head, session, data))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    """The data. Raises `ValueError` where the file is damaged."""
    with path.open("rb") as file:
        length, aside, checksum, _ = _head(file)
        file.seek(aside, os.SEEK_CUR)
        data = file.read()
    if len(data) != length:
        raise ValueError(f"{path.name} holds {len(data)} bytes of {length}")
    if hashlib.sha256(data).digest() != checksum:
        raise ValueError(f"the checksum of {path.name} is wrong")
    return data


def _read_session(path: Path) -> bytes:
    """What is kept of the session. Raises `ValueError` where that is damaged."""
    with path.open("rb") as file:
        _, length, _, checksum = _head(file)
        session = file.read(length)
    if len(session) != length or hashlib.sha256(session).digest() != checksum:
        raise ValueError(f"the session in {path.name} is damaged")
    return session


def _head(file: BinaryIO) -> tuple[int, int, bytes, bytes]:
    head = file.read(_START)
    if not head.startswith(_MAGIC) or len(head) < _START:
        raise ValueError(f"{Path(file.name).name} does not begin as a snapshot does")
    length, session_length, checksum, session_checksum = _HEAD.unpack(head[len(_MAGIC) :])
    return length, session_length, checksum, session_checksum
