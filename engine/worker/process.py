"""The engine of a service: a worker process that is started again when it dies. Imports no torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence

from engine.api import EngineError, EngineState, ModelCard
from engine.worker.calling import CallingEngine
from engine.worker.calls import CONTROL_TIMEOUT_S, Calls
from engine.worker.child import Child
from engine.worker.messages import Boot, Loaded, LoadFailed, Request

log = logging.getLogger(__name__)

RESTART_DELAYS_S = (0.2, 1.0, 5.0, 15.0, 30.0)
STEADY_S = 60.0  # a worker that lived this long starts the delays from the first again
STOP_GRACE_S = 2.0


class ProcessEngine(CallingEngine):
    """An `Engine` whose model lives in a process of its own.

    When that process dies, every world is lost (`EngineLost` for whoever waits) and another one is started,
    after the next of `restart_delays_s`; until it has loaded, the status says why. `environment` is added to
    the worker's, e.g. `{"OMP_NUM_THREADS": "2"}`.
    """

    def __init__(
        self,
        boot: Boot,
        environment: Mapping[str, str] | None = None,
        restart_delays_s: Sequence[float] = RESTART_DELAYS_S,
        control_timeout_s: float = CONTROL_TIMEOUT_S,
    ) -> None:
        self._boot = boot
        self._environment = dict(environment or {})
        self._delays = restart_delays_s
        self._calls = Calls(self._send, control_timeout_s)
        self._state = EngineState.STARTING
        self._child: Child | None = None
        self._supervisor: asyncio.Task[None] | None = None

    async def start(self) -> ModelCard:
        """Start the worker and wait until its model is loaded. Raises `EngineError` with the reason."""
        self._calls.lose("the model is loading")
        child, card = await self._launch()
        self._supervisor = asyncio.create_task(self._supervise(child))
        return card

    async def stop(self) -> None:
        """End the worker, whatever it does; idempotent."""
        self._state = EngineState.STOPPED
        self._calls.lose("the engine was stopped")
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        if self._child is not None:
            child, self._child = self._child, None
            await child.end(STOP_GRACE_S)

    def _send(self, request: Request) -> None:
        assert self._child is not None
        self._child.channel.send(request)

    async def _launch(self) -> tuple[Child, ModelCard]:
        """A worker with a loaded model. Raises `EngineError`; then no process is left."""
        child = self._child = await Child.spawn(self._boot, self._environment, self._calls.deliver)
        first = await asyncio.shield(child.words.first)
        if isinstance(first, Loaded):
            self._calls.connect()
            self._state = EngineState.READY
            return child, first.card
        end = await child.end(STOP_GRACE_S)
        self._child = None
        reason = first.reason if isinstance(first, LoadFailed) else end
        raise EngineError(reason)

    async def _supervise(self, child: Child) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            await child.words.ended.wait()
            self._state = EngineState.RESTARTING
            self._lose(await child.end(STOP_GRACE_S))
            self._child = None
            failures = 0 if time.monotonic() - began >= STEADY_S else failures
            child, failures = await self._restart(failures)

    async def _restart(self, failures: int) -> tuple[Child, int]:
        """Try until a worker is up; the new one, and how many starts in a row have failed or died young."""
        while True:
            await asyncio.sleep(self._delays[min(failures, len(self._delays) - 1)])
            failures += 1
            try:
                child, _ = await self._launch()
            except EngineError as error:
                self._lose(f"the model could not be loaded: {error}")
            else:
                log.info("the worker was started again")
                return child, failures

    def _lose(self, reason: str) -> None:
        log.error("%s", reason)
        self._calls.lose(f"{reason}; it is being started again")
