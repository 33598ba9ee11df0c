"""What engines over a worker's loop share: their calls go to it, wherever it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from engine.api import (
    ChunkCommitted,
    ChunkReady,
    EngineState,
    EngineStatus,
    OpenWorld,
    Tick,
    WorldLedger,
    WorldSnapshot,
)
from engine.worker.calls import Calls


class CallingEngine:
    """The requests of `engine.api.Engine`; whoever derives from it starts and stops the loop."""

    _calls: Calls
    _state: EngineState

    def status(self) -> EngineStatus:
        """Where the engine stands now."""
        return self._calls.status(self._state)

    async def open_world(self, request: OpenWorld) -> None:
        """Make a world."""
        await self._calls.open(request)

    def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        """Compute the next chunk."""
        return self._calls.run(tick, slack_s)

    async def cancel_chunk(self, world: str) -> None:
        """Roll back the chunk in flight, if its pixels have not left."""
        self._calls.cancel(world)

    async def reset_world(self, world: str) -> None:
        """Back to the first frame."""
        await self._calls.reset(world)

    async def close_world(self, world: str) -> None:
        """Release a world; idempotent."""
        await self._calls.close(world)

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        """All of a world as of its last commit."""
        return await self._calls.snapshot(world)

    async def restore_world(self, request: OpenWorld, snapshot: bytes) -> None:
        """Make a world from a snapshot."""
        await self._calls.restore(request, snapshot)

    async def fork_world(self, source: str, request: OpenWorld) -> None:
        """Make a world that is as `source` is, and goes on by itself."""
        await self._calls.fork(source, request)

    async def read_ledger(self, world: str) -> WorldLedger:
        """What the caches of a world hold."""
        return await self._calls.read_ledger(world)
