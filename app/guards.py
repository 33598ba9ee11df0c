"""What stands beside every socket's conversation: its time limit, and the warning before the end."""

from __future__ import annotations

import asyncio

from app.channel import Channel
from app.edge import Edge
from app.refusals import Stalled

DRAIN_S = 10.0


async def stalled(edge: Edge, channel: Channel) -> None:
    """Raise `Stalled` once nothing has passed for too long."""
    longest, now = edge.settings.stall_timeout_s, asyncio.get_running_loop().time
    while True:
        left = channel.active + longest - now()
        if left <= 0:
            raise Stalled(f"neither progress nor a message for {longest:g} seconds: send `session.ping`")
        await asyncio.sleep(left)


async def warn_of_drain(edge: Edge, channel: Channel) -> None:
    """Tell the client that the server is about to end; never returns."""
    await edge.draining.wait()
    await channel.send({"type": "session.draining", "grace_seconds": DRAIN_S})
    await asyncio.Event().wait()
