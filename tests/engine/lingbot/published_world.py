"""A world of the small published checkpoint, and steps with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world
from kvcache.memory import Memory
from tests.engine.lingbot.published_layout import HEIGHT, WIDTH
from tests.engine.world.small_world import finish


def opened(model: Model) -> World:
    """One that begins with noise, where its model lies."""
    image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    return open_world(model, WorldSpec("w", image, "a meadow", 5), make_caches(Memory(model.device)))


def play(world: World, key: str = "w") -> NDArray[np.uint8]:
    """Commit one chunk with a key held; its pixels."""
    frames = finish(world.begin_chunk("a meadow", ({"keys": (key,)},) * 3))
    world.commit()
    return frames
