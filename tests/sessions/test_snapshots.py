"""Snapshots survive a kill at any moment, are whole or passed over, and stay within their bounds."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from killed_writer import killed_after

from sessions.errors import StorageUnavailable
from sessions.folder_snapshots import FolderSnapshots
from sessions.snapshots import Kept, Point, Pruned
from sessions.thinning import superfluous

LARGE = 2**30


@asynccontextmanager
async def opened(
    folder: Path, keep: int = 8, max_bytes: int = LARGE, pruned: list[Pruned] | None = None
) -> AsyncIterator[FolderSnapshots]:
    told = pruned if pruned is not None else []
    store = FolderSnapshots(folder, keep=keep, max_bytes=max_bytes, pruned=told.append)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


def content(chunks: int) -> bytes:
    return f"chunk {chunks} ".encode() * 50


def file_of(folder: Path, world: str, epoch: int, chunks: int) -> Path:
    return folder / world / f"{epoch}-{chunks}.snapshot"


async def test_the_newest_snapshot_comes_back_also_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert await store.newest("w") is None
        for chunks in (0, 8, 16):
            await store.save("w", Point(0, chunks), content(chunks))
        await store.save("other", Point(3, 1), content(1))
    async with opened(tmp_path) as store:
        found = await store.newest("w")
        assert found is not None
        assert (found.world, found.point, found.data) == ("w", Point(0, 16), content(16))
        assert await store.points("w") == [Point(0, 0), Point(0, 8), Point(0, 16)]
        assert store.bytes == sum(sizes(tmp_path))


async def test_the_caller_says_which_points_lead_where_it_wants_to_go(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for point in (Point(0, 8), Point(0, 16), Point(1, 4)):
            await store.save("w", point, content(point.chunks))
        found = await store.newest("w", lambda point: point.epoch == 0 and point.chunks <= 12)
        assert found is not None and found.point == Point(0, 8)
        assert await store.newest("w", lambda point: point.epoch == 7) is None
        await store.discard("w", lambda point: point.epoch == 0 and point.chunks > 8)
        assert await store.points("w") == [Point(0, 8), Point(1, 4)]
        await store.discard("w")
        assert await store.points("w") == [] and store.bytes == 0
    assert names(tmp_path) == []


async def test_a_point_that_is_saved_again_is_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.save("w", Point(0, 8), b"first")
        await store.save("w", Point(0, 8), b"second, which is longer")
        found = await store.newest("w")
        assert found is not None and found.data.startswith(b"second")
        assert store.bytes == file_of(tmp_path, "w", 0, 8).stat().st_size


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.glob("*/*")]


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "magic", "longer", "gone"])
async def test_a_damaged_snapshot_is_passed_over_for_an_older_one(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        await store.save("w", Point(0, 8), content(8))
        await store.save("w", Point(0, 16), content(16))
        path = file_of(tmp_path, "w", 0, 16)
        whole = path.read_bytes()
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(
                {
                    "flip": whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
                    "truncate": whole[:-1],
                    "empty": b"",
                    "magic": b"x" + whole[1:],
                    "longer": whole + b"\0",
                }[damage]
            )
        with caplog.at_level(logging.WARNING):
            found = await store.newest("w")
        assert found is not None and (found.point, found.data) == (Point(0, 8), content(8))
        assert "epoch 0, 16 chunks of world w is passed over" in caplog.text
        assert await store.points("w") == [Point(0, 8)] and not path.exists()


async def test_a_killed_write_leaves_the_one_before(tmp_path: Path) -> None:
    """A writer saves one point again and again, with larger and larger data, until it is killed."""
    program = (
        "import sys; from pathlib import Path; from sessions.folder_snapshots import SnapshotFolder\n"
        "from sessions.snapshots import Point\n"
        "store = SnapshotFolder(Path(sys.argv[1]), 8, 2**30); store.scan()\n"
        "for chunks in range(1000):\n"
        "    store.save('w', Point(0, chunks), bytes([chunks % 251]) * 300_000)\n"
        "    print(chunks, flush=True)\n"
    )
    for lines in (1, 3, 7):
        done = killed_after(lines, program, tmp_path)
        async with opened(tmp_path) as store:
            found = await store.newest("w")
            assert found is not None and found.point.chunks >= done
            assert found.data == bytes([found.point.chunks % 251]) * 300_000
            assert not [name for name in names(tmp_path / "w") if name.endswith(".part")]


async def test_old_snapshots_are_thinned_and_that_is_said(tmp_path: Path) -> None:
    pruned: list[Pruned] = []
    async with opened(tmp_path, keep=3, pruned=pruned) as store:
        for chunks in range(8, 8 * 7, 8):
            await store.save("w", Point(0, chunks), content(chunks))
        assert [point.chunks for point in await store.points("w")] == [16, 40, 48]
    assert len(pruned) == 3 and (pruned[0].world, pruned[0].reason) == ("w", "a world keeps 3")
    assert not any(gone.for_room for gone in pruned)


def test_thinning_leaves_no_large_gap() -> None:
    kept: list[Point] = []
    for chunks in range(8, 8 * 1001, 8):
        kept.append(Point(0, chunks))
        for gone in superfluous(kept, 8):
            kept.remove(gone)
    assert len(kept) == 8 and [point.chunks for point in kept[-2:]] == [7992, 8000]
    assert (
        max(later.chunks - earlier.chunks for earlier, later in pairwise([Point(0, 0), *kept]))
        <= 2 * 8000 / 7
    )


def test_thinning_counts_a_jump_back_as_nothing() -> None:
    points = [Point(0, 8), Point(0, 16), Point(1, 4), Point(1, 12), Point(1, 20)]
    assert superfluous(points, 5) == []
    assert superfluous(points, 4) == [Point(0, 16)]


async def test_the_quota_holds_and_what_it_prunes_is_said(tmp_path: Path) -> None:
    pruned: list[Pruned] = []
    async with opened(tmp_path, max_bytes=5 * 1100, pruned=pruned) as store:
        for world in ("a", "b", "c"):
            for chunks in (8, 16):
                await store.save(world, Point(0, chunks), bytes(1000))
        assert [(gone.world, gone.what) for gone in pruned] == [("a", "the snapshot at epoch 0, 8 chunks")]
        for world in ("d", "e", "f"):
            await store.save(world, Point(0, 8), bytes(1000))
        assert [gone.world for gone in pruned] == ["a", "b", "c", "a"]  # the newest of a world go last
        assert store.bytes <= 5 * 1100
        assert all(gone.reason == "all snapshots may take 5500 bytes" for gone in pruned)
        assert all(gone.for_room and gone.kind is Kept.SNAPSHOT for gone in pruned)
    async with opened(tmp_path, max_bytes=2 * 1100, pruned=pruned) as store:
        assert store.bytes <= 2 * 1100
        assert await store.points("f") == [Point(0, 8)]


async def test_a_snapshot_beyond_the_quota_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, max_bytes=2000) as store:
        await store.save("a", Point(0, 8), bytes(1000))
        with pytest.raises(StorageUnavailable, match="2097 bytes is beyond the 2000 of all"):
            await store.save("b", Point(0, 8), bytes(2000))
        assert await store.points("a") == [Point(0, 8)]


async def test_a_disk_that_refuses_fails_the_call_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.save("w", Point(0, 8), content(8))
        (tmp_path / "blocked").write_bytes(b"")  # a file where the world's folder should be
        with pytest.raises(StorageUnavailable, match="snapshots can't be written or read"):
            await store.save("blocked", Point(0, 8), content(8))
        assert await store.points("w") == [Point(0, 8)]


async def test_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    full = tmp_path / "w"
    async with opened(tmp_path) as store:
        await store.save("w", Point(0, 8), content(8))
        (full / "0-8.part").symlink_to("/dev/full")
        with pytest.raises(StorageUnavailable, match="No space left on device"):
            await store.save("w", Point(0, 8), content(9))
        found = await store.newest("w")
        assert found is not None and found.data == content(8)
        assert names(full) == ["0-8.snapshot"]


async def test_a_store_that_was_stopped_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pass
    await store.stop()
    with pytest.raises(StorageUnavailable, match="closed"):
        await store.points("w")


async def test_names_of_worlds_stay_in_the_folder(tmp_path: Path) -> None:
    async with opened(tmp_path / "in") as store:
        await store.save("../out/x", Point(0, 1), content(1))
    async with opened(tmp_path / "in") as store:
        assert await store.points("../out/x") == [Point(0, 1)]
    assert names(tmp_path) == ["in"]
