"""Work that must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """The work's result. Where the caller is cancelled, the work goes on to its end all the same."""
    return await asyncio.shield(asyncio.create_task(work))
