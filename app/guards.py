"""What stands beside every socket's conversation: its time limit, and the warning before the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Never, TypeVar

from app.channel import Channel
from app.edge import Edge
from app.refusals import Stalled

T = TypeVar("T")

DRAIN_S = 10.0


async def first_of(*parts: Coroutine[Any, Any, T]) -> T:
    """What the first of `parts` to end answers or raises; where several do at once, the earliest in the list.

    All of them have ended then.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def guarded(edge: Edge, channel: Channel, *parts: Coroutine[Any, Any, T]) -> T:
    """`first_of` these parts of a conversation. Raises `Stalled` too."""
    return await first_of(*parts, _stalled(edge, channel), _warn_of_drain(edge, channel))


async def _stalled(edge: Edge, channel: Channel) -> Never:
    """Raise `Stalled` once nothing has passed for too long."""
    longest, now = edge.settings.stall_timeout_s, asyncio.get_running_loop().time
    while True:
        left = channel.active + longest - now()
        if left <= 0:
            raise Stalled(f"neither progress nor a message for {longest:g} seconds: send `session.ping`")
        await asyncio.sleep(left)


async def _warn_of_drain(edge: Edge, channel: Channel) -> Never:
    """Tell the client that the server is about to end."""
    await edge.draining.wait()
    await channel.send({"type": "session.draining", "grace_seconds": DRAIN_S})
    forever: asyncio.Future[Never] = asyncio.get_running_loop().create_future()
    await forever
