"""Releases that run on the worker, whoever stops waiting for them. Imports no torch."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock


class ReleaseQueue:
    """Closes that are asked for from any thread and run by the worker, between jobs.

    A release that was asked for always runs: its future can't be cancelled. One owner has one release
    pending; who asks again waits for the same.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pending: OrderedDict[str, tuple[Callable[[], None], Future[None]]] = OrderedDict()

    def __len__(self) -> int:
        """Releases that wait for the worker."""
        return len(self._pending)

    def request(self, owner: str, release: Callable[[], None]) -> Future[None]:
        """Ask for a release of `owner`. The future carries what it raises."""
        with self._lock:
            if owner in self._pending:
                return self._pending[owner][1]
            future: Future[None] = Future()
            future.set_running_or_notify_cancel()  # from here on `cancel` does nothing
            self._pending[owner] = (release, future)
            return future

    def drain(self) -> int:
        """Run what is pending, in order; called by the worker after the job in flight. Returns how many
        ran.
        """
        ran = 0
        while True:
            with self._lock:
                if not self._pending:
                    return ran
                _, (release, future) = self._pending.popitem(last=False)
            try:
                release()
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                future.set_result(None)
            ran += 1


async def wait_shielded(future: Future[None]) -> None:
    """Wait for a release. A waiter that is cancelled stops waiting, and the release goes on."""
    await asyncio.shield(asyncio.wrap_future(future))
