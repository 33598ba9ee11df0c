"""A disk that is full, a real one: events and chunks fail, the server and its sessions do not."""

import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import build_stores
from app.client import Chunk
from app.settings import Settings
from tests.app.rest_helpers import refused

Start = Callable[..., Awaitable[Any]]
WALK = {"prompt": "a meadow", "seed": 7, "format": "annexb", "mode": "stepped", "session_id": "walk"}


class SmallDisk:
    """A folder on a file system of its own. `fill` leaves no room on it, `free` gives that back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab") as file:
            for size in (2**16, 2**12, 1):
                try:
                    while True:
                        os.write(file.fileno(), bytes(size))
                except OSError:
                    continue

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount`")
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def walk(client: Any, session_id: str, first: int, last: int) -> list[Chunk]:
    chunks = []
    for number in range(first, last):
        event = {"event_id": number, "prompt": f"place {number % 3}"}
        await client.call("POST", f"/v1/sessions/{session_id}/events", event)
        chunks.append(await client.run_chunk(session_id))
    return chunks


async def test_a_full_disk_fails_what_has_to_be_written_and_nothing_else(
    start_server: Start, small_disk: SmallDisk
) -> None:
    stores = build_stores(Settings(data=small_disk.folder))
    server = await start_server(stores=stores, snapshot_every=1)
    client = server.client
    await client.create(**WALK)
    chunks = await walk(client, "walk", 0, 4)
    await client.call("POST", "/v1/sessions/walk/events", {"event_id": 4, "prompt": "place 1"})
    small_disk.fill()
    event = {"event_id": 5, "prompt": "place 2" * 500}
    error = await refused(client.call("POST", "/v1/sessions/walk/events", event))
    assert (error.status, error.code, error.retryable) == (503, "journal_unavailable", True)
    error = await refused(client.run_chunk("walk"))
    assert (error.status, error.code, error.retryable) == (503, "journal_unavailable", True)
    error = await refused(client.create(**{**WALK, "session_id": "another"}))
    assert (error.status, error.code) == (503, "journal_unavailable")
    assert (await client.call("GET", "/health")).json() == {"status": "healthy"}
    seen = (await client.call("GET", "/v1/sessions/walk")).json()
    assert (seen["chunk_index"], seen["pending_event_ids"]) == (4, [4])
    assert seen["status"] in ("active", "suspended")
    small_disk.free()
    chunks.append(await client.run_chunk("walk"))
    chunks += await walk(client, "walk", 5, 7)
    await client.create(**{**WALK, "session_id": "another"})
    assert [chunk.data for chunk in chunks] == [chunk.data for chunk in await walk(client, "another", 0, 7)]
    assert [chunk.metadata["transport_chunk_index"] for chunk in chunks] == list(range(7))
