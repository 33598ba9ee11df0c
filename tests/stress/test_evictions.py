"""Sessions beyond capacity, through the sessions' manager and the real engine at a minimal size."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
import torch
from growth import LIMIT, resident, scales
from small_checkpoint import write_checkpoint

from engine.camera.reducer import CameraReducer
from engine.native import make_host
from engine.worker.local import LocalEngine
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.spec import Mode, SessionSpec

torch.set_num_threads(1)

SIDE = 16  # pixels: one token per latent frame
ROOM = 3
NAMES = 7


def spec(name: str, seed: int) -> SessionSpec:
    return SessionSpec("a meadow", SIDE, SIDE, 16, seed, scene="meadow", mode=Mode.STEPPED, session_id=name)


@pytest.mark.parametrize("evictions", scales(32, 1280))
@pytest.mark.timeout(1800)
async def test_evictions_with_ids_used_again_leave_nothing(evictions: int, tmp_path: Path) -> None:
    """Each new session plays a chunk in the place of the least recently used one; an id comes back after its
    session was evicted and closed, and the same inputs give the same pixels every time.
    """
    host = make_host(str(write_checkpoint(tmp_path)), 1, max_worlds=ROOM)
    engine = LocalEngine(host)
    manager = SessionManager(engine, MemoryJournal(), {"camera": CameraReducer()})
    await manager.start()
    caches = host._caches
    assert caches is not None
    weight, warm = 0, 0
    digests: dict[int, str] = {}
    present: deque[str] = deque()
    for number in range(evictions + ROOM):
        name, seed = f"session {number % NAMES}", number % 5
        if number >= NAMES:
            await manager.close(name)  # it was evicted
        session = await manager.create(spec(name, seed))
        chunk = await session.run_chunk()
        assert digests.setdefault(seed, chunk.media.digest) == chunk.media.digest, f"session {number}"
        present.append(session.info().world)
        if number == 0:
            weight = caches.memory.live_bytes
        if number >= ROOM:
            gone = present.popleft()
            assert (await engine.read_ledger(gone)).live_bytes == 0
        assert all(world in caches for world in present), "another than the least recently used went"
        assert len(caches) == len(present)
        assert caches.memory.live_bytes == caches.ledger.live_bytes == len(present) * weight
        if number == evictions // 8:
            warm = resident()
    assert caches.is_balanced()
    grown = resident() - warm
    await manager.stop()
    assert caches.memory.live_bytes == caches.memory.allocations == caches.ledger.live_bytes == 0
    assert caches.ledger.live.owners == {}
    assert caches.pool is not None
    assert caches.pool.in_use == 0
    assert grown < LIMIT
