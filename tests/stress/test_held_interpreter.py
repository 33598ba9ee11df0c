"""A worker that holds its interpreter lock, or is killed: who lives goes on, who is dead is let go."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from held_host import HOLD
from websockets.asyncio.client import connect

from app.client import Chunk, Stream
from app.paths import SOCKET_PATH
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from tests.app.running_server import Running, running

FREE = {"extra_params": {"pace_to_media_time": False}}


def engine(seconds: float, marks: Path, **options: Any) -> ProcessEngine:
    boot = Boot("held_host:held_host", {"seconds": seconds, "marks": str(marks)})
    return ProcessEngine(boot, {"OMP_NUM_THREADS": "1"}, **options)


async def live(stream: Stream, every_s: float, until: asyncio.Event) -> tuple[int, int]:
    """Play and ping until told. Returns how many chunks and pongs came; raises where the session drops."""
    chunks = pongs = 0

    async def ping() -> None:
        while True:
            await stream.send("session.ping")
            await asyncio.sleep(every_s)

    pinging = asyncio.create_task(ping())
    try:
        while not until.is_set():
            message = await stream.receive()
            chunks += isinstance(message, Chunk)
            pongs += isinstance(message, dict) and message["type"] == "session.pong"
    finally:
        pinging.cancel()
    return chunks, pongs


async def stopped(stream: Stream) -> None:
    """Stop it and read to its end: a socket that nobody reads takes its whole close timeout."""
    await stream.send("session.stop")
    assert (await stream.done())["stopped"]


async def poll_health(url: str, until: asyncio.Event) -> list[float]:
    """Seconds of each answer, one every 20 ms."""
    taken = []
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        await http.get("/health")
        while not until.is_set():
            began = time.perf_counter()
            assert (await http.get("/health")).json() == {"status": "healthy"}
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(max(0.0, 0.02 - taken[-1]))
    return taken


async def dead_peer(server: Running) -> asyncio.Task[None]:
    """A client that starts, and then never reads, answers or leaves; the task ends when the server cut it."""
    url = "ws" + server.url.removeprefix("http") + SOCKET_PATH
    socket = await connect(
        url, proxy=None, compression=None, ping_interval=None, max_queue=1, close_timeout=0.1
    )
    await socket.send(
        '{"type": "session.start", "prompt": "a meadow", "mode": "stepped", "session_id": "dead"}'
    )
    await socket.recv()
    socket.transport.pause_reading()

    async def gone() -> None:
        await server.until(lambda: "dead" not in server.edge.manager._register.live)
        socket.transport.abort()
        await socket.wait_closed()

    return asyncio.create_task(gone())


async def held(tmp_path: Path, seconds: float, live_sessions: int, **limits: float) -> list[float]:
    """Hold for so long while others play and ping, and one is dead. Returns what `/health` took."""
    async with AsyncExitStack() as stack:
        options = {"resume_grace_s": 0.0, "after_grace": "close", **limits}
        server = await stack.enter_async_context(running(engine(seconds, tmp_path), **options))
        over = asyncio.Event()
        asked = [{"prompt": "a meadow", "seed": number} for number in range(live_sessions)]
        streams = [await stack.enter_async_context(server.client.stream(**fields)) for fields in asked]
        dead = await dead_peer(server)  # while it still gets its world
        holding = {"prompt": f"{HOLD} on", **FREE}
        streams.append(await stack.enter_async_context(server.client.stream(**holding)))
        playing = [asyncio.create_task(live(stream, seconds / 20, over)) for stream in streams]
        polling = asyncio.create_task(poll_health(server.url, over))
        await server.until((tmp_path / "began").exists)
        assert not (tmp_path / "ended").exists()
        await dead
        await server.until((tmp_path / "ended").exists)
        over.set()
        for chunks, pongs in await asyncio.gather(*playing):
            assert chunks > 0 and pongs > 0
        for stream in streams:  # nobody was dropped, and each goes on
            assert (await stream.chunk()).data
        assert server.edge.manager.awake_count == len(streams)
        await asyncio.gather(*map(stopped, streams))
        return await polling


async def test_a_held_interpreter_drops_nobody_who_lives_and_the_dead_are_let_go(tmp_path: Path) -> None:
    limits = {
        "stall_timeout_s": 2.5,
        "ping_interval_s": 0.5,
        "ping_timeout_s": 2.5,
        "last_word_timeout_s": 0.3,
    }
    assert len(await held(tmp_path, 4.0, 4, **limits)) > 20


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_an_interpreter_held_for_25_seconds_drops_nobody(tmp_path: Path) -> None:
    # Shorter than the hold, so that whoever depended on the worker would be dropped.
    limits = {"stall_timeout_s": 12.0, "ping_interval_s": 4.0, "ping_timeout_s": 12.0}
    taken = await held(tmp_path, 25.0, 20, **limits)
    p99 = statistics.quantiles(taken, n=100)[-1]
    # Its clients share its event loop here: tests/stress/test_full_load.py measures it from outside.
    print(f"/health: p99 {p99 * 1000:.1f} ms of {len(taken)} while the interpreter was held")  # noqa: T201
    assert len(taken) > 100


async def test_a_killed_worker_leaves_the_server_which_says_so_until_its_sessions_revive(
    tmp_path: Path,
) -> None:
    worker = engine(0.0, tmp_path, restart_delays_s=(0.3,))
    async with running(worker) as server, server.client.stream(prompt="a meadow", **FREE) as stream:
        while (await stream.chunk()).metadata["generation_chunk_index"] < 2:
            pass
        before = worker._child
        assert before is not None
        os.kill(before.process.pid, signal.SIGKILL)
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
            while (answer := await http.get("/readyz")).status_code == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            assert answer.status_code == 503 and "killed by signal 9" in answer.json()["reason"]
            assert (await http.get("/health")).status_code == 200
            while (await http.get("/readyz")).status_code == 503:
                assert (await http.get("/health")).status_code == 200
                await asyncio.sleep(0.01)
        assert worker._child is not before
        seen = [(await stream.chunk()).metadata["transport_chunk_index"] for _ in range(10)]
        assert seen == list(range(seen[0], seen[0] + 10))
