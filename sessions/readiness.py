"""Waiting for an engine that starts again."""

from __future__ import annotations

import asyncio

from engine.api import Engine, EngineState
from sessions.clock import Clock
from sessions.errors import EngineUnavailable

LOOK_EVERY_S = 0.05


async def engine_ready(engine: Engine, clock: Clock, within_s: float) -> None:
    """Return once the engine takes work.

    Raises `EngineUnavailable` where it was stopped, or is not ready within so many seconds.
    """
    latest = clock.now() + within_s
    while (status := engine.status()).state is not EngineState.READY:
        reason = status.reason or f"the engine is {status.state}"
        if status.state is EngineState.STOPPED or clock.now() >= latest:
            raise EngineUnavailable(reason)
        woken = asyncio.Event()
        alarm = clock.call_at(clock.now() + LOOK_EVERY_S, woken.set)
        try:
            await woken.wait()
        finally:
            alarm.cancel()
