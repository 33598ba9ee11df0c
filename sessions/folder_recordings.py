"""Recordings as files: a folder per world, in it numbered files to which chunks are added."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from sessions.disk import folder_of
from sessions.errors import StorageUnavailable
from sessions.folder_store import FolderStore, log_pruned
from sessions.recordings import START, RecordedChunk
from sessions.reel import read_record, record_of
from sessions.snapshots import Kept, Pruned

log = logging.getLogger(__name__)

MAX_BYTES: Final = 4 * 2**30
FILE_BYTES: Final = 8 * 2**20  # a file that is this long is followed by another

_SUFFIX: Final = ".chunks"


class FolderRecordings(FolderStore["RecordingFolder"]):
    """Implements `RecordingStore` in a folder of at most `max_bytes`.

    Where that is exceeded, whole recordings go, the one that nothing was added to for longest first; the
    last one left loses its beginning. `pruned` is told of it, on the event loop.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        file_bytes: int = FILE_BYTES,
        pruned: Callable[[Pruned], None] = log_pruned,
    ) -> None:
        super().__init__("recordings", RecordingFolder(folder, max_bytes, file_bytes), pruned)

    async def append(self, world: str, chunk: RecordedChunk) -> None:
        """Add a chunk that lies beyond those that are there; drops one that comes again."""
        self._tell(await self._disk.do(lambda: self._files.append(world, chunk)))

    async def chunks(self, world: str, since: tuple[int, int] = START) -> AsyncIterator[RecordedChunk]:
        """What is recorded of a life, in the order in which it was shown, from before `since` on."""
        for number, end in await self._disk.do(lambda: self._files.extent_since(world, since)):
            position = 0
            while position < end:
                chunk, position = await self._disk.do(self._files.reading(world, number, position, end))
                if chunk is not None:
                    yield chunk

    async def discard(self, world: str) -> None:
        """Remove a life's recording."""
        await self._disk.do(lambda: self._files.discard(world))


@dataclass(slots=True)
class _Recording:
    """A world's files, by number, with their bytes; the last one grows."""

    files: dict[int, int] = field(default_factory=dict)
    used: int = 0  # rises from append to append, over all recordings
    checked: bool = False  # whether the last file was seen to end in a whole record
    last: tuple[int, int] | None = None  # epoch and index of the last chunk


class RecordingFolder:
    """The files, for one thread. Every method may raise `OSError`."""

    def __init__(self, folder: Path, max_bytes: int, file_bytes: int) -> None:
        self.bytes = 0
        self._root = folder
        self._max_bytes = max_bytes
        self._file_bytes = min(file_bytes, max_bytes // 4)
        self._recordings: dict[str, _Recording] = {}
        self._clock = 0

    def scan(self) -> list[Pruned]:
        """Take stock, and remove what is too much."""
        self._root.mkdir(parents=True, exist_ok=True)
        found = []
        for path in self._root.glob(f"*/*{_SUFFIX}"):
            if path.stem.isdecimal():
                status = path.stat()
                found.append((status.st_mtime_ns, unquote(path.parent.name), int(path.stem), status.st_size))
        for _, world, number, size in sorted(found):
            recording = self._recording(world)
            recording.files[number] = size
            self.bytes += size
        return self._make_room(None)

    def append(self, world: str, chunk: RecordedChunk) -> list[Pruned]:
        """Add a record; what was pruned for it. Raises `StorageUnavailable` for one beyond the quota."""
        recording = self._recording(world)
        if not recording.checked:
            self._check(world, recording)
        place = (chunk.epoch, chunk.chunk_index)
        if recording.last is not None and place <= recording.last:
            return []
        record = record_of(chunk)
        if len(record) > self._max_bytes:
            raise StorageUnavailable(f"a chunk of {len(record)} bytes is beyond the {self._max_bytes} of all")
        number = max(recording.files, default=0)
        if recording.files.get(number, 0) >= self._file_bytes:
            number += 1
        self._write(world, recording, number, record)
        recording.last = place
        return self._make_room(world)

    def extent(self, world: str) -> list[tuple[int, int]]:
        """The numbers of the files and their lengths, in order."""
        recording = self._recordings.get(world)
        return sorted(recording.files.items()) if recording is not None else []

    def extent_since(self, world: str, since: tuple[int, int]) -> list[tuple[int, int]]:
        """Those of `extent` from the last file on that begins with this chunk or an earlier one."""
        files = self.extent(world)
        for place in range(len(files) - 1, 0, -1):
            number, end = files[place]
            first, _ = self.reading(world, number, 0, end)()
            if first is not None and (first.epoch, first.chunk_index) <= since:
                return files[place:]
        return files

    def reading(
        self, world: str, number: int, position: int, end: int
    ) -> Callable[[], tuple[RecordedChunk | None, int]]:
        """A call that reads the record at `position`: it, and where the next one begins."""

        def read() -> tuple[RecordedChunk | None, int]:
            path = self._path(world, number)
            try:
                with path.open("rb") as file:
                    file.seek(position)
                    return read_record(file), file.tell()
            except FileNotFoundError:  # pruned meanwhile
                return None, end
            except (ValueError, KeyError, TypeError) as error:
                log.warning(
                    "%s of world %s is passed over from byte %d: %s", path.name, world, position, error
                )
                return None, end

        return read

    def discard(self, world: str) -> None:
        """Remove all files of a world."""
        for number, _ in self.extent(world):
            self._remove(world, number)

    def _recording(self, world: str) -> _Recording:
        self._clock += 1
        recording = self._recordings.setdefault(world, _Recording())
        recording.used = self._clock
        return recording

    def _check(self, world: str, recording: _Recording) -> None:
        """What a killed process left at the end is torn: cut it off, so that whole records follow."""
        for number, size in reversed(self.extent(world)):
            position = 0
            while position < size:
                chunk, after = self.reading(world, number, position, -1)()
                if chunk is None:
                    break
                recording.last, position = (chunk.epoch, chunk.chunk_index), after
            self._cut(world, recording, number, position)
            if recording.last is not None:
                break
        recording.checked = True

    def _cut(self, world: str, recording: _Recording, number: int, length: int) -> None:
        if length < recording.files[number]:
            os.truncate(self._path(world, number), length)
            self.bytes -= recording.files[number] - length
            recording.files[number] = length

    def _write(self, world: str, recording: _Recording, number: int, record: bytes) -> None:
        """Add to a file, or leave it as it was."""
        path, length = self._path(world, number), recording.files.get(number, 0)
        if not length:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("r+b" if length else "wb") as file:
                file.seek(length)
                file.write(record)
        except BaseException:
            with suppress(OSError):
                os.truncate(path, length)
            raise
        recording.files[number] = length + len(record)
        self.bytes += len(record)

    def _make_room(self, current: str | None) -> list[Pruned]:
        gone = []
        while self.bytes > self._max_bytes:
            others = {name: each for name, each in self._recordings.items() if name != current and each.files}
            if others:
                world = min(others, key=lambda name: others[name].used)
                what, numbers = "the whole recording", list(others[world].files)
            else:
                assert current is not None
                world, numbers = current, [min(self._recordings[current].files)]
                what = "the beginning of the recording"
            size = sum(self._remove(world, number) for number in numbers)
            reason = f"all recordings may take {self._max_bytes} bytes"
            gone.append(Pruned(Kept.RECORDING, world, what, size, reason, for_room=True))
        return gone

    def _remove(self, world: str, number: int) -> int:
        path, recording = self._path(world, number), self._recordings[world]
        path.unlink(missing_ok=True)
        size = recording.files.pop(number)
        self.bytes -= size
        if not recording.files:
            del self._recordings[world]
            with suppress(OSError):  # something else lies there
                path.parent.rmdir()
        return size

    def _path(self, world: str, number: int) -> Path:
        return folder_of(self._root, world) / f"{number:06d}{_SUFFIX}"
