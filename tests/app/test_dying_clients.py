"""Clients that die at any moment leave nothing behind."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from app.paths import socket_url

Start = Callable[..., Awaitable[Any]]
PROMPT = {"prompt": "a meadow"}


async def live_and_die(server: Any, dice: random.Random) -> None:
    """Up to a random moment, at which the connection is gone without a word."""
    url = socket_url(server.url)
    socket = await connect(url, proxy=None, compression=None, ping_interval=None)
    start = {"type": "session.start", **PROMPT, "mode": dice.choice(["continuous", "stepped"])}
    steps = dice.randrange(8)
    try:
        if steps > 0:
            await socket.send(json.dumps(start))
        for step in range(1, steps):
            await socket.recv()
            if dice.random() < 0.5:
                body = {"event_id": str(step), "event": {"prompt": f"wish {step}"}}
                await socket.send(json.dumps({"type": "session.interaction", "interaction": body}))
            if dice.random() < 0.2:
                kind = dice.choice(["session.reset", "session.cancel", "session.ping"])
                await socket.send(json.dumps({"type": kind}))
            await asyncio.sleep(dice.random() * 0.02)
            if start["mode"] == "stepped":
                break
    except ConnectionClosed:
        pass
    socket.transport.abort()
    await socket.wait_closed()


@pytest.mark.parametrize("after_grace", ["close", "suspend"])
async def test_clients_that_die_at_random_moments_leave_nothing_behind(
    start_server: Start, after_grace: str
) -> None:
    server = await start_server(resume_grace_s=0, after_grace=after_grace)
    engine, state = server.edge.engine, server.server.server_state
    async with server.client.stream(**PROMPT, num_frames=9) as first:  # whatever starts once has started
        await first.done()
    await server.until(lambda: not server.edge.manager.awake_count and not engine.status().worlds)
    baseline = len(asyncio.all_tasks())
    dice = random.Random(7)
    clients = [asyncio.create_task(live_and_die(server, dice)) for _ in range(50)]
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        while not all(client.done() for client in clients):
            assert (await http.get("/readyz")).status_code == 200
    await asyncio.gather(*clients)
    await server.until(lambda: not server.edge.manager.awake_count)
    await server.until(lambda: not engine.status().worlds and not engine.status().queue_depth)
    assert engine.status().pages_in_use == 0
    await server.until(lambda: not state.tasks and len(state.connections) <= 1)
    await server.until(lambda: len(asyncio.all_tasks()) <= baseline)
    async with server.client.stream(**PROMPT, num_frames=9) as last:
        assert (await last.done())["chunks"] == 1
