"""What an engine can be asked to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from engine.api.chunks import ChunkCommitted, ChunkReady
from engine.api.model_card import ModelCard
from engine.api.requests import OpenWorld, Tick
from engine.api.status import EngineStatus
from engine.api.worlds import WorldLedger, WorldSnapshot


class Engine(Protocol):
    """Owns one device and its worlds. All calls are made from one event loop; none blocks it."""

    async def start(self) -> ModelCard:
        """Load the model. Raises `EngineError` with the reason where it can't be loaded."""

    async def stop(self) -> None:
        """Release everything; idempotent."""

    def status(self) -> EngineStatus:
        """Where the engine stands now; never waits."""

    async def open_world(self, request: OpenWorld) -> None:
        """Make a world. Raises `WorldRefused`, `CapacityReached`, `EngineLost`."""

    def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        """Compute the next chunk: yields one `ChunkReady`, then one `ChunkCommitted`.

        `slack_s` is how long the viewer can still play, in seconds; the smallest is served first, and without
        one worlds take turns. Raises `ChunkCancelled`, `ChunkFailed`, `UnknownWorld`, `EngineLost`; then
        nothing of the chunk is left.
        """

    async def cancel_chunk(self, world: str) -> None:
        """Ask that the chunk in flight be rolled back; without one, or once its pixels left, does nothing."""

    async def reset_world(self, world: str) -> None:
        """Back to the first frame: generator reseeded, pose, caches and histories empty. Waits for the job in
        flight. Raises `UnknownWorld`, `EngineLost`."""

    async def close_world(self, world: str) -> None:
        """Release a world after its job in flight and its encoding; idempotent. Raises `CloseFailed`."""

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        """All of a world as of its last commit; waits for the job in flight, and the chunks asked for before.
        It takes its place in the world's line at once, before anything is awaited: a chunk that is asked for
        behind it need not wait for its end, and is not in it. Raises `UnknownWorld`, `EngineLost`."""

    async def restore_world(self, request: OpenWorld, snapshot: bytes) -> None:
        """Make a world that goes on bit for bit as the one that `snapshot` was taken of would.

        `request` is that world's own, but for the world's name, the prompt, fps and media: a reset brings
        back the first frame from it. Raises `SnapshotRefused` and what `open_world` raises; then there is no
        world.
        """

    async def fork_world(self, source: str, request: OpenWorld) -> None:
        """Make a world that is as `source` is after its last committed chunk, and goes on by itself; nothing
        of the source changes. `request` as in `restore_world`. Waits for the source's job in flight.
        Raises `UnknownWorld` where there is no source, and what `restore_world` raises."""

    async def read_ledger(self, world: str) -> WorldLedger:
        """What the caches of a world hold; waits for its job in flight. Of a closed world what is remembered.
        Raises `UnknownWorld`, `EngineLost`.
        """
