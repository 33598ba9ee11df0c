"""Work beside the device's thread."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Beside(threading.Thread):
    """Makes one call after another. Leaner than an executor: between the end of a call, for which the
    device's thread waits, and the next one it keeps the interpreter's lock for nothing.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def submit(self, call: Callable[[], object]) -> None:
        """Make this call behind those that wait; from any thread."""
        self._calls.put(call)

    def finish(self) -> None:
        """Make the calls that wait, and end."""
        self._calls.put(None)
        self.join()

    def run(self) -> None:
        """Runs on its own thread."""
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                log.exception("a call beside the device broke")
