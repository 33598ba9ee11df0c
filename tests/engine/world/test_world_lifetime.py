"""What can be opened, what a close gives back, and that a long session holds no more than a short one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_world import FORWARD, WALK, picture, play, spec_of

from engine.api import WorldRefused
from engine.world.caches import Caches, make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world
from kvcache.errors import CleanupFailed, OwnerExists, OwnerTombstoned
from tests.kvcache.failing_memory import FailingMemory


@pytest.mark.parametrize(("width", "height"), [(40, 32), (48, 0), (8, 8), (1600, 1600)])
def test_sizes_that_no_world_can_have_are_refused(width: int, height: int) -> None:
    with pytest.raises(WorldRefused) as refusal:
        WorldSpec("w", picture(0, width, height), "", 0)
    assert refusal.value.field in ("width", "height")


def test_only_pictures_are_images() -> None:
    with pytest.raises(WorldRefused, match="image"):
        WorldSpec("w", np.zeros((32, 48, 3), np.float32), "", 0)  # type: ignore[arg-type]


def test_an_open_id_can_not_be_opened_again_and_a_closed_one_can(
    fresh: Callable[..., World], caches: Caches, model: Model
) -> None:
    world = fresh(spec_of("one"))
    with pytest.raises(OwnerExists):
        open_world(model, spec_of("one"), caches)
    world.close()
    world.close()
    fresh(spec_of("one"))


def test_a_failed_close_leaves_a_tombstone_until_a_retry_succeeds(model: Model) -> None:
    memory = FailingMemory(stuck=True)
    caches = make_caches(memory)
    world = open_world(model, spec_of(), caches)
    play(world, FORWARD)
    with pytest.raises(CleanupFailed, match="device is gone"):
        world.close()
    with pytest.raises(OwnerTombstoned):
        open_world(model, spec_of(), caches)
    memory.stuck = False
    world.close()
    assert memory.live_bytes == caches.ledger.live_bytes == 0
    again = open_world(model, spec_of(), caches)
    again.close()


def test_a_world_that_finds_no_room_leaves_nothing(model: Model) -> None:
    caches = make_caches(FailingMemory(full=True))
    for _ in range(2):
        with pytest.raises(MemoryError):
            open_world(model, spec_of(), caches)
    assert caches.ledger.is_consistent()


def test_a_long_session_holds_no_more_memory_than_a_short_one(
    fresh: Callable[..., World], caches: Caches
) -> None:
    world = fresh()
    play(world, *WALK)
    held = caches.memory.live_bytes
    play(world, *WALK * 8)
    assert caches.memory.live_bytes == held
    assert world.chunks == 45
