"""Opening up to capacity, the one way to close, tombstones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from failing_memory import FailingMemory

from kvcache.capacity import plan, required_bytes
from kvcache.errors import CleanupFailed, OutOfMemory, OwnerExists, OwnerTombstoned
from kvcache.geometry import Geometry
from kvcache.identity import Identity, Representation
from kvcache.manager import CacheManager, SessionCaches
from kvcache.memory import Memory

torch.set_num_threads(1)

GEOMETRY = Geometry(
    layers=2,
    kv_heads=1,
    head_dim=4,
    dtype="float32",
    tokens_per_frame=2,
    sink_frames=3,
    window_frames=6,
    frames_per_block=3,
    cross_tokens=5,
)
TEXT = Identity(
    "text", 0, "a meadow", "transformer", "1", "", Representation(2, 1, 5, 1, 4, "float32", "cpu")
)


def new_manager(capacity: int = 3) -> CacheManager:
    return CacheManager(FailingMemory(), plan(GEOMETRY, 10**9, 1, capacity))


def play(caches: SessionCaches) -> None:
    """One block, and a prompt."""
    shape = (1, 1, 6, 4)
    block = caches.view.begin()
    for layer in range(2):
        block.write(layer, torch.ones(shape), torch.ones(shape))
    caches.view.commit()
    layers = [(torch.ones(1, 1, 5, 4), torch.ones(1, 1, 5, 4)) for _ in range(2)]
    caches.conditioning.publish(caches.conditioning.begin_build(TEXT), layers)


def pages_in_use(manager: CacheManager) -> int:
    assert manager.pool is not None
    return manager.pool.in_use


def stick(manager: CacheManager, stuck: bool) -> None:
    assert isinstance(manager.memory, FailingMemory)
    manager.memory.stuck = stuck


def test_a_closed_session_leaves_nothing() -> None:
    manager = new_manager()
    play(manager.open("a", GEOMETRY))
    assert manager.is_balanced()
    assert pages_in_use(manager) == 3
    manager.close("a")
    manager.close("a")
    assert (
        manager.memory.live_bytes == manager.ledger.live_bytes == pages_in_use(manager) == len(manager) == 0
    )
    assert manager.is_balanced()


def test_a_session_beyond_capacity_is_refused_by_open() -> None:
    manager = new_manager(2)
    manager.open("a", GEOMETRY)
    manager.open("b", GEOMETRY)
    with pytest.raises(OutOfMemory, match="no room for 'c': 2 sessions are open"):
        manager.open("c", GEOMETRY)
    with pytest.raises(OwnerExists):
        manager.open("a", GEOMETRY)


def test_a_larger_session_needs_the_room_of_several() -> None:
    manager = new_manager(4)
    manager.plan = plan(GEOMETRY, required_bytes(GEOMETRY, 4), 1, 4)
    large = replace(GEOMETRY, tokens_per_frame=2 * GEOMETRY.tokens_per_frame)
    for owner in "abcd":
        manager.open(owner, GEOMETRY)
    for owner in "abc":  # the block in flight is larger, too
        with pytest.raises(OutOfMemory):
            manager.open("large", large)
        manager.close(owner)
    assert manager.open("large", large).view.geometry == large
    assert manager.memory.live_bytes <= manager.plan.budget
    huge = replace(GEOMETRY, tokens_per_frame=9 * GEOMETRY.tokens_per_frame)
    with pytest.raises(OutOfMemory):
        manager.open("huge", huge)


def test_a_failed_close_blocks_the_id_until_a_retry_succeeds() -> None:
    manager = new_manager()
    play(manager.open("a", GEOMETRY))
    stick(manager, True)
    for _ in range(2):
        with pytest.raises(CleanupFailed, match="'a' could not be released: device is gone"):
            manager.close("a")
    assert manager.ledger.tombstone("a") == "RuntimeError: device is gone"
    with pytest.raises(OwnerTombstoned):
        manager.open("a", GEOMETRY)
    assert manager.is_balanced()
    stick(manager, False)
    manager.close("a")
    play(manager.open("a", GEOMETRY))
    manager.close("a")
    assert manager.memory.live_bytes == 0
    assert manager.is_balanced()


def test_a_tombstone_takes_room() -> None:
    manager = new_manager(3)
    for owner in "abc":
        manager.open(owner, GEOMETRY)
    stick(manager, True)
    with pytest.raises(CleanupFailed):
        manager.close("a")
    assert "a" in manager
    with pytest.raises(OutOfMemory):
        manager.open("d", GEOMETRY)
    stick(manager, False)
    for owner in "abc":
        manager.close(owner)
    manager.open("d", GEOMETRY)


def test_without_a_plan_there_is_no_limit_but_memory() -> None:
    manager = CacheManager(Memory())
    for number in range(9):
        play(manager.open(str(number), GEOMETRY))
    assert manager.is_balanced()
    manager.close_all()
    assert manager.memory.live_bytes == 0


def test_an_open_that_fails_leaves_the_id_free() -> None:
    manager = CacheManager(FailingMemory(full=True), plan(GEOMETRY, 10**9, 1, 1))
    for _ in range(3):
        with pytest.raises(MemoryError):
            manager.open("a", GEOMETRY)
    assert manager.ledger.can_open("a")
    assert manager.is_balanced()


def test_a_lease_that_is_out_blocks_the_close_until_it_is_back() -> None:
    manager = new_manager()
    caches = manager.open("a", GEOMETRY)
    play(caches)
    lease = caches.conditioning.lease(TEXT, "encoder")
    assert lease is not None
    with pytest.raises(CleanupFailed, match="leased"):
        manager.close("a")
    lease.give_back()
    manager.close("a")
    assert manager.memory.live_bytes == 0


@pytest.mark.parametrize("closing", [CacheManager.close_all, lambda manager: manager.close("a")])
def test_every_release_is_tried_though_one_raises(closing: Callable[[CacheManager], None]) -> None:
    manager = new_manager()
    caches = manager.open("a", GEOMETRY)
    play(caches)
    lease = caches.conditioning.lease(TEXT, "encoder")
    assert lease is not None
    with pytest.raises(CleanupFailed):
        closing(manager)
    text_bytes = 2 * 2 * 5 * 4 * 4
    assert manager.memory.live_bytes == text_bytes  # the view is gone all the same
    lease.give_back()
    manager.close_all()
    assert manager.is_balanced()


def test_forty_sessions_in_turn_take_pages_of_their_own() -> None:
    manager = new_manager(4)
    for number in range(40):
        if number >= 4:
            manager.close(str(number - 4))
        play(manager.open(str(number), GEOMETRY))
    assert pages_in_use(manager) == 4 * 3
    manager.close_all()
    assert pages_in_use(manager) == 0
