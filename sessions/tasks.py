"""Work that must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """The work's result. Where the caller is cancelled, the work goes on to its end all the same."""
    return await outlasting(asyncio.create_task(work))


async def outlasting(task: asyncio.Task[T]) -> T:
    """The task's result; it outlasts a caller who is cancelled, and then ends unheard, even in an error."""
    task.add_done_callback(_hear)
    return await asyncio.shield(task)


def _hear(task: asyncio.Task[T]) -> None:
    """Without this, a task that failed when nobody waited any more would complain in the log."""
    if not task.cancelled():
        task.exception()
