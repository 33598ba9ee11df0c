"""Time, behind an interface, so that tests need not wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Don't call any more."""


class Clock(Protocol):
    """Seconds since some fixed moment, and calls at a moment to come."""

    def now(self) -> float:
        """Seconds; never goes back."""

    def wall(self) -> float:
        """Unix seconds, for people."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """Call back in the event loop once `now()` has reached `when`."""


class MonotonicClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Seconds of the running event loop's clock."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """Call back in the running event loop."""
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), callback)
