"""The Python client, where it is more than a call."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from tests.app.running_server import running


async def test_a_stream_that_nobody_reads_is_left_at_once() -> None:
    unpaced = {"pace_to_media_time": False}
    async with running() as server, AsyncExitStack() as stack:
        playing = server.client.stream(prompt="a meadow", extra_params=unpaced)
        stream = await stack.enter_async_context(playing)
        await server.until(lambda: not stream.socket.transport.is_reading())  # so much lies unread
        async with asyncio.timeout(5):  # a socket waits ten seconds for the other side's goodbye
            await stack.aclose()
        assert stream.socket.close_code == 1000
