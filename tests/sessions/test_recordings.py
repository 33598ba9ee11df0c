"""A recording holds what was shown, survives a kill and a full disk, and stays within its quota."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from killed_writer import killed_after

from engine.api import EncodedChunk
from sessions.errors import StorageUnavailable
from sessions.folder_recordings import FolderRecordings
from sessions.recordings import RecordedChunk
from sessions.snapshots import Pruned

LARGE = 2**30


@asynccontextmanager
async def opened(
    folder: Path, max_bytes: int = LARGE, file_bytes: int = 2**20, pruned: list[Pruned] | None = None
) -> AsyncIterator[FolderRecordings]:
    told = pruned if pruned is not None else []
    store = FolderRecordings(folder, max_bytes=max_bytes, file_bytes=file_bytes, pruned=told.append)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


def chunk(index: int, epoch: int = 0, size: int = 100) -> RecordedChunk:
    frames = tuple(bytes([index % 256, frame]) * (size // 2 + frame) for frame in range(9))
    media = EncodedChunk("h264", "avc1.42c01e", 96, 64, 16, 12 * index, frames, f"digest {epoch} {index}")
    return RecordedChunk(epoch, index, media)


async def all_of(store: FolderRecordings, world: str = "w") -> list[RecordedChunk]:
    return [each async for each in store.chunks(world)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.chunks"))


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in files(folder))


async def test_what_was_shown_comes_back_in_its_order_also_after_a_restart(tmp_path: Path) -> None:
    shown = [*(chunk(index) for index in range(30)), *(chunk(index, epoch=1) for index in range(5))]
    async with opened(tmp_path, file_bytes=8000) as store:
        for each in shown[:20]:
            await store.append("w", each)
        assert await all_of(store) == shown[:20] and await all_of(store, "nobody") == []
    assert len(files(tmp_path)) > 2
    async with opened(tmp_path, file_bytes=8000) as store:
        for each in shown[20:]:
            await store.append("w", each)
        assert await all_of(store) == shown and store.bytes == sizes(tmp_path)


async def test_a_chunk_that_comes_again_is_kept_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for index in (0, 1, 2, 2):
            await store.append("w", chunk(index))
    async with opened(tmp_path) as store:
        for each in (chunk(2), chunk(3), chunk(0, epoch=1), chunk(3)):
            await store.append("w", each)
        places = [(each.epoch, each.chunk_index) for each in await all_of(store)]
    assert places == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


@pytest.mark.parametrize("torn", [1, 20, 60, 500])
async def test_a_torn_end_is_cut_off_and_written_again(
    tmp_path: Path, torn: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        for index in range(3):
            await store.append("w", chunk(index))
    [path] = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-torn])
    async with opened(tmp_path) as store:
        with caplog.at_level(logging.WARNING):
            assert await all_of(store) == [chunk(0), chunk(1)]
        assert "of world w is passed over" in caplog.text
        await store.append("w", chunk(2))
        await store.append("w", chunk(3))
        assert await all_of(store) == [chunk(index) for index in range(4)]
        assert store.bytes == sizes(tmp_path)


async def test_a_killed_writer_loses_nothing_that_it_was_told_is_there(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sessions.folder_recordings import RecordingFolder\n"
        f"sys.path.append({str(Path(__file__).parent)!r})\n"
        "from test_recordings import chunk\n"
        "store = RecordingFolder(Path(sys.argv[1]), 2**30, 2**20); store.scan()\n"
        "for index in range(10_000):\n"
        "    store.append('w', chunk(index, size=20_000))\n"
        "    print(index, flush=True)\n"
    )
    done = killed_after(12, program, tmp_path)
    async with opened(tmp_path) as store:
        kept = await all_of(store)
        assert len(kept) > done and kept == [chunk(index, size=20_000) for index in range(len(kept))]
        await store.append("w", chunk(len(kept), size=20_000))
        assert (await all_of(store))[-1] == chunk(len(kept), size=20_000)


async def test_a_damaged_file_does_not_hide_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path, file_bytes=2000) as store:
        for index in range(9):
            await store.append("w", chunk(index))
    first = files(tmp_path)[0]
    whole = first.read_bytes()
    first.write_bytes(whole[:200] + b"?" + whole[201:])
    async with opened(tmp_path, file_bytes=2000) as store:
        kept = await all_of(store)
    assert 3 < len(kept) < 9 and kept[-1] == chunk(8)


async def test_the_longest_unused_recording_goes_first_and_that_is_said(tmp_path: Path) -> None:
    pruned: list[Pruned] = []
    async with opened(tmp_path, max_bytes=12_000, file_bytes=2000, pruned=pruned) as store:
        for world in ("a", "b", "a", "c"):
            index = len(await all_of(store, world))
            for further in range(2):
                await store.append(world, chunk(index + further))
        await store.append("c", chunk(2, size=300))
        assert [(gone.world, gone.what) for gone in pruned] == [("b", "the whole recording")]
        assert len(await all_of(store, "a")) == 4 and await all_of(store, "b") == []
        assert pruned[0].reason == "all recordings may take 12000 bytes" and pruned[0].bytes > 2000
        assert store.bytes == sizes(tmp_path) <= 12_000


async def test_the_last_recording_loses_its_beginning(tmp_path: Path) -> None:
    pruned: list[Pruned] = []
    async with opened(tmp_path, max_bytes=12_000, file_bytes=2000, pruned=pruned) as store:
        for index in range(40):
            await store.append("w", chunk(index))
        kept = [each.chunk_index for each in await all_of(store)]
        assert kept == list(range(kept[0], 40)) and kept[0] > 20
        assert {gone.what for gone in pruned} == {"the beginning of the recording"}
        assert store.bytes == sizes(tmp_path) <= 12_000
    async with opened(tmp_path, max_bytes=4000, pruned=pruned) as store:
        assert store.bytes <= 4000


async def test_what_is_pruned_while_it_is_read_is_passed_over(tmp_path: Path) -> None:
    async with opened(tmp_path, file_bytes=2000) as store:
        for index in range(9):
            await store.append("w", chunk(index))
        reading = store.chunks("w")
        assert await anext(reading) == chunk(0)
        await store.discard("w")
        assert [each async for each in reading] == [] and files(tmp_path) == []
        await store.append("w", chunk(9))
        assert await all_of(store) == [chunk(9)]


async def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.append("w", chunk(0))
        [path] = files(tmp_path)
        whole = path.read_bytes()
        path.unlink()
        path.symlink_to("/dev/full")
        with pytest.raises(StorageUnavailable, match="recordings can't be written or read"):
            await store.append("w", chunk(1))
        path.unlink()
        path.write_bytes(whole)
        await store.append("w", chunk(1))
        assert await all_of(store) == [chunk(0), chunk(1)]


async def test_a_chunk_beyond_the_quota_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, max_bytes=2000) as store:
        with pytest.raises(StorageUnavailable, match="beyond the 2000 of all"):
            await store.append("w", chunk(0, size=1000))
        await store.append("w", chunk(0))
        assert await all_of(store) == [chunk(0)]


async def test_of_what_was_shown_before_only_the_last_file_is_read(tmp_path: Path) -> None:
    shown = [*(chunk(index) for index in range(40)), *(chunk(index, epoch=1) for index in range(20))]
    async with opened(tmp_path, file_bytes=5000) as store:
        for each in shown:
            await store.append("w", each)
        assert len(files(tmp_path)) > 5
        for since in ((0, 0), (0, 17), (0, 39), (1, 0), (1, 19)):
            found = [each async for each in store.chunks("w", since)]
            behind = [each for each in shown if (each.epoch, each.chunk_index) >= since]
            assert found[-len(behind) :] == behind
            assert len(found) - len(behind) < 8  # what one file holds
        assert await all_of(store) == shown
