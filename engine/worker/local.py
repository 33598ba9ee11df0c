"""The worker's loop on a thread of this process: for tests, and for programs that serve nobody."""

from __future__ import annotations

import asyncio
import threading

from engine.api import EngineState, ModelCard
from engine.media.chunk import encode_chunk
from engine.worker.calling import CallingEngine
from engine.worker.calls import CONTROL_TIMEOUT_S, Calls
from engine.worker.host import Host
from engine.worker.loop import Encode, WorkerLoop
from engine.worker.messages import Answer, Request, Stop


class LocalEngine(CallingEngine):
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

    def _send(self, request: Request) -> None:
        assert self._loop is not None
        self._loop.receive(request)
