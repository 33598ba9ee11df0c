"""Clients that die at random moments: memory, pages, tasks, descriptors and slots are as before."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import httpx
import pytest
from dying_clients import MOMENTS, WAYS, Client
from growth import LIMIT, resident, scales

from app.bootstrap import build_stores
from app.settings import Settings
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from tests.app.running_server import Running, running

HOST = "engine.pattern.host:pattern_host"
# A peer that falls silent is cut by these, whatever it was about.
SHORT = {
    "start_timeout_s": 2.0,
    "stall_timeout_s": 2.0,
    "last_word_timeout_s": 0.5,
    "ping_interval_s": 0.5,
    "ping_timeout_s": 2.0,
}


async def kill(server: Running, count: int, dice: random.Random) -> list[Client]:
    """Let so many live and die at once. The server is ready all along, and gets rid of the silent."""
    port, over = int(server.url.rsplit(":", 1)[1]), asyncio.Event()
    clients = [Client(port, dice) for _ in range(count)]
    lives = [asyncio.create_task(client.live(over)) for client in clients]
    loud = [life for life, client in zip(lives, clients, strict=True) if client.way != "silence"]
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http:
        while not all(life.done() for life in loud):
            assert (await http.get("/readyz")).status_code == 200
            await asyncio.sleep(0.005)
    await until_empty(server)
    over.set()
    await asyncio.gather(*lives)
    return clients


async def until_empty(server: Running) -> None:
    """No session, world, page, chunk or connection is left."""
    engine, state = server.edge.engine, server.server.server_state
    await server.until(lambda: not server.edge.manager.awake_count)
    await server.until(lambda: not engine.status().worlds and not engine.status().queue_depth)
    await server.until(lambda: engine.status().pages_in_use == 0)
    await server.until(lambda: not state.connections and not state.tasks)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", scales(30, 200))
@pytest.mark.parametrize("after_grace", ["close", "suspend"])
async def test_clients_that_die_at_random_moments_leave_nothing(
    count: int, after_grace: str, tmp_path: Path
) -> None:
    dice = random.Random(count)
    engine, stores = ProcessEngine(Boot(HOST)), build_stores(Settings(data=tmp_path))
    times = SHORT if count < 100 else {name: 5 * seconds for name, seconds in SHORT.items()}
    async with running(engine, stores, resume_grace_s=0, after_grace=after_grace, **times) as server:
        await kill(server, count, dice)  # whatever starts once has started
        memory, tasks, files = resident(), len(asyncio.all_tasks()), descriptors()
        met: set[tuple[str, str]] = set()
        for _ in range(1 if count < 100 else 5):
            met |= {(client.moment, client.way) for client in await kill(server, count, dice)}
        await server.until(lambda: len(asyncio.all_tasks()) <= tasks and descriptors() <= files)
        grown = resident() - memory
        assert grown < LIMIT
        async with server.client.stream(prompt="a meadow", num_frames=9) as last:
            assert (await last.done())["chunks"] == 1
    assert count < 100 or met == set(itertools.product(MOMENTS, WAYS))
    print(f"{count} clients a round: grew by {grown / 2**20:.1f} MiB")  # noqa: T201
