"""What the worker's loop asks of a model. The tests script it; `engine.native` is the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.api import ModelCard, OpenWorld, Tick, WorldLedger
from engine.worker.messages import Usage


class LoadRefused(Exception):
    """What was asked for can't be loaded: one sentence that says what, and what is allowed. No bug."""


class HostLost(BaseException):
    """What the model runs on is gone, and nothing but a new worker brings it back: this one ends with it. No
    `Exception`, so that whatever fails a chunk or a world for one is not meant.
    """


class HostChunk(Protocol):
    """One chunk on its way; nothing of it stays unless its world commits it."""

    def forwards(self) -> Iterator[None]:
        """Run the probes, one at each step, so that the loop can look up between them."""

    def decode(self) -> NDArray[np.uint8]:
        """The chunk's frames: RGB [F, H, W, 3]. After the last forward."""

    def write(self) -> None:
        """The commit pass, after `decode` and while the frames are encoded: write the clean block's K/V where
        only a commit makes it part of the world.
        """


class HostWorld(Protocol):
    """All state of one world. Used by the device's thread alone; any method may raise."""

    @property
    def chunks(self) -> int:
        """Committed chunks since the epoch began."""

    def begin_chunk(self, tick: Tick) -> HostChunk:
        """Stage the next chunk."""

    def commit(self) -> None:
        """Keep the staged chunk, which was decoded and written."""

    def rollback(self) -> None:
        """Forget the staged chunk, if any: the world is as after its last commit."""

    def reset(self) -> None:
        """Back to the first frame."""

    def snapshot(self) -> Callable[[], bytes]:
        """Copy the world as of its last commit; what is returned packs the copy, on any thread."""

    def fork(self, request: OpenWorld) -> HostWorld:
        """Another world that is as this one after its last commit. Raises as `Host.restore`."""

    def close(self) -> None:
        """Release everything; idempotent, and retried where it raised."""


class Host(Protocol):
    """A model and the device that it runs on. Whatever is asked of it or its worlds may raise `HostLost`."""

    def load(self) -> ModelCard:
        """Load the model; raises `LoadRefused`, or with whatever is wrong with the model."""

    def open(self, request: OpenWorld) -> HostWorld:
        """Make a world. Raises `WorldRefused` or `CapacityReached`."""

    def restore(self, request: OpenWorld, snapshot: bytes) -> HostWorld:
        """Make a world from a snapshot. Raises `SnapshotRefused` too; then there is no world."""

    def usage(self) -> Usage:
        """Pages in use and in all."""

    def ledger(self, world: str) -> WorldLedger:
        """What the caches of a world hold or held; no facts where it is unknown, or needs no caches."""
