"""How late the event loop is: what every client waits on top of everything else."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, Histogram

EVERY_S = 0.1
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)


class LoopLag:
    """Sleeps, and observes by how much it overslept."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "worldline_event_loop_lag_seconds",
            "By how much the server's event loop is late.",
            buckets=SECONDS,
            registry=registry,
        )

    async def watch(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._lag.observe(max(0.0, loop.time() - due))
