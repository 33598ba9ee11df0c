"""A thread for file work: in the order of its calls, never on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sessions.errors import StorageUnavailable

T = TypeVar("T")


class Disk:
    """One thread; it begins with the first call."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._name = name
        self._stopped = False

    async def do(self, work: Callable[[], T]) -> T:
        """Run `work` there. Whoever gives up waiting does not stop it. Raises `StorageUnavailable`."""
        if self._stopped:
            raise StorageUnavailable(f"{self._name} are closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except OSError as error:
            raise StorageUnavailable(f"{self._name} can't be written or read: {error}") from error

    async def stop(self) -> None:
        """Finish what waits; idempotent."""
        self._stopped = True
        await asyncio.to_thread(self._pool.shutdown)


def folder_of(root: Path, world: str) -> Path:
    """Where the files of a world lie."""
    name = quote(world, safe="")
    assert name.strip("."), f"{world!r} can't name a world"
    return root / name
