"""The worker's loop on a thread of this process: for tests, and for programs that serve nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from engine.api import (
    ChunkCommitted,
    ChunkReady,
    EngineState,
    EngineStatus,
    ModelCard,
    OpenWorld,
    Tick,
    WorldLedger,
    WorldSnapshot,
)
from engine.media.chunk import encode_chunk
from engine.worker.calls import CONTROL_TIMEOUT_S, Calls
from engine.worker.host import Host
from engine.worker.loop import Encode, WorkerLoop
from engine.worker.messages import Answer, Request, Stop


class LocalEngine:
    """An `Engine` over a host in this process. The device's thread ends with `stop`."""

    def __init__(
        self, host: Host, encode: Encode = encode_chunk, control_timeout_s: float = CONTROL_TIMEOUT_S
    ) -> None:
        self._host = host
        self._encode = encode
        self._calls = Calls(self._send, control_timeout_s)
        self._state = EngineState.STARTING
        self._loop: WorkerLoop | None = None
        self._thread: threading.Thread | None = None

    async def start(self) -> ModelCard:
        """Load the model on this thread, then serve on another."""
        card = self._host.load()
        events = asyncio.get_running_loop()

        def deliver(answer: Answer) -> None:
            events.call_soon_threadsafe(self._calls.deliver, answer)

        self._loop = WorkerLoop(self._host, card, deliver, self._encode)
        self._thread = threading.Thread(target=self._loop.run, name="device")
        self._thread.start()
        self._calls.connect()
        self._state = EngineState.READY
        return card

    async def stop(self) -> None:
        """End the thread after the job in flight; idempotent."""
        self._state = EngineState.STOPPED
        self._calls.lose("the engine was stopped")
        if self._loop is not None and self._thread is not None:
            self._loop.receive(Stop())
            await asyncio.to_thread(self._thread.join)

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

    def _send(self, request: Request) -> None:
        assert self._loop is not None
        self._loop.receive(request)
