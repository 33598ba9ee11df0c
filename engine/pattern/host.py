"""The pattern as a model in the worker process: what `worldline serve --engine pattern` runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.api import CapacityReached, ModelCard, OpenWorld, Tick, WorldLedger
from engine.pattern.card import PAGES_PER_WORLD, STEPS, check_request, pattern_card
from engine.pattern.scenery import scenery_for
from engine.pattern.snapshot import pack_walk, require_same_opening, unpack_walk
from engine.pattern.world import PatternWorld, Walk
from engine.worker.messages import Usage


def pattern_host(capacity: int = 256, chunk_seconds: float = 0.0) -> PatternHost:
    """The factory that a `Boot` names."""
    return PatternHost(capacity, chunk_seconds)


class PatternHost:
    """Draws instead of computing; each chunk keeps the one device for `chunk_seconds` beside the drawing."""

    def __init__(self, capacity: int, chunk_seconds: float) -> None:
        self.chunk_seconds = chunk_seconds
        self.card = pattern_card(capacity)
        self.open_worlds = 0

    def load(self) -> ModelCard:
        """Nothing to load."""
        return self.card

    def open(self, request: OpenWorld) -> HostedPattern:
        """Make a world. Raises `WorldRefused` or `CapacityReached`."""
        return self.make(request, Walk())

    def restore(self, request: OpenWorld, snapshot: bytes) -> HostedPattern:
        """Make a world from a snapshot. Raises `SnapshotRefused` too."""
        return self.make(request, unpack_walk(request, snapshot))

    def make(self, request: OpenWorld, walk: Walk) -> HostedPattern:
        """Make a world that has come so far. Raises `WorldRefused` or `CapacityReached`."""
        check_request(request, self.card)
        if self.open_worlds >= self.card.capacity:
            raise CapacityReached(f"all {self.card.capacity} worlds are taken")
        world = HostedPattern(self, request, PatternWorld(scenery_for(request), walk))
        self.open_worlds += 1
        return world

    def usage(self) -> Usage:
        """As if every world held its pages."""
        return Usage(self.open_worlds * PAGES_PER_WORLD, self.card.capacity * PAGES_PER_WORLD)

    def ledger(self, world: str) -> WorldLedger:
        """A pattern has no caches."""
        return WorldLedger(world, (), 0, balanced=True)


class HostedPattern:
    """A pattern world as the loop wants it."""

    def __init__(self, host: PatternHost, request: OpenWorld, world: PatternWorld) -> None:
        self._host = host
        self._request = request
        self._world = world
        self._open = True

    @property
    def chunks(self) -> int:
        """Committed chunks since the epoch began."""
        return self._world.walk.chunks

    def begin_chunk(self, tick: Tick) -> HostedChunk:
        """Stage the next chunk."""
        return HostedChunk(self._world, tick, self._host.chunk_seconds / STEPS)

    def commit(self) -> None:
        """Keep the chunk."""
        self._world.commit()

    def rollback(self) -> None:
        """Forget the chunk."""
        self._world.rollback()

    def reset(self) -> None:
        """Back to the start."""
        self._world.reset()

    def snapshot(self) -> Callable[[], bytes]:
        """The walk, to be packed."""
        return partial(pack_walk, self._request, self._world.walk)

    def fork(self, request: OpenWorld) -> HostedPattern:
        """Another walk from here. Raises `SnapshotRefused` too."""
        require_same_opening(self._request, request)
        return self._host.make(request, self._world.walk)

    def close(self) -> None:
        """Give the place back."""
        if self._open:
            self._open = False
            self._host.open_worlds -= 1


class HostedChunk:
    """Pretends to probe, then draws."""

    def __init__(self, world: PatternWorld, tick: Tick, step_seconds: float) -> None:
        self._world = world
        self._tick = tick
        self._step_seconds = step_seconds

    def forwards(self) -> Iterator[None]:
        """As many steps as the card says."""
        for _ in range(STEPS):
            time.sleep(self._step_seconds)
            yield

    def decode(self) -> NDArray[np.uint8]:
        """Draw the frames."""
        return np.stack(list(self._world.render(self._tick)))

    def write(self) -> None:
        """A pattern has no K/V."""
