"""A real server in a process of its own, killed at any moment and started again over the same data."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException

from app.client import Chunk, Client, ServerError, Stream

ROOT = Path(__file__).resolve().parents[2]
KEYS = ("w", "d", "i", "a", "s", "l")


class Served:
    """Over one data directory; `client` speaks to the process that lives now."""

    def __init__(self, data: Path, engine: str, **settings: str) -> None:
        self._command = [sys.executable, "-m", "app.cli", "serve", "--engine", engine, "--port", "0"]
        self._command += ["--data", str(data)]
        self._environment = {**os.environ, **settings, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        self._process: asyncio.subprocess.Process | None = None
        self.client: Client

    async def start(self) -> None:
        """Return once it is ready."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        assert line.startswith("Worldline is ready"), f"the server did not start: {line!r}"
        self.client = Client(line.split()[-1])

    def kill_worker(self) -> None:
        """The process that computes, and whatever else the server started."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        assert children, "the server has a worker"
        for child in children.split():
            os.kill(int(child), signal.SIGKILL)

    async def end(self, number: int = signal.SIGKILL) -> None:
        """By a signal."""
        assert self._process is not None
        await self.client.aclose()
        if self._process.returncode is None:
            self._process.send_signal(number)
        await self._process.wait()


@asynccontextmanager
async def served(data: Path, engine: str, **settings: str) -> AsyncIterator[Served]:
    """A started server, which is ended in the end."""
    server = Served(data, engine, **settings)
    await server.start()
    try:
        yield server
    finally:
        await server.end(signal.SIGTERM)


class Walker:
    """Plays a stepped session, one event per chunk, and comes back wherever the server went away.

    `seen` holds each chunk's bytes by its transport index; one that comes twice has to be the same.
    """

    def __init__(self, server: Served, session_id: str) -> None:
        self.seen: dict[int, bytes] = {}
        self._server = server
        self._session_id = session_id
        self.token: str | None = None
        self._stream: Stream | None = None

    async def walk(self, chunks: int) -> None:
        """Play until so many chunks have been seen, or raise what the lost server does to its client."""
        async with self._server.client.socket() as stream:
            self._stream = stream
            if self.token is None:
                spec = {"prompt": "a meadow", "seed": 11, "format": "annexb", "mode": "stepped"}
                video = await stream.start(**spec, session_id=self._session_id)
                self.token = video["token"]
            else:
                await stream.resume(self._session_id, self.token, len(self.seen) - 1)
            while len(self.seen) < chunks:
                await self._step(stream)

    def vanish(self) -> None:
        """Break the connection without a word."""
        if self._stream is not None:
            self._stream.socket.transport.abort()

    async def ask(self, stream: Stream) -> None:
        """Send the event of the next chunk."""
        number = len(self.seen)
        change: dict[str, Any] = {"prompt": f"place {number}"} if number % 5 == 0 else {}
        if not change:
            data = {"mode": "state", "transitions": [{"actions": [KEYS[number % len(KEYS)]]}]}
            change["camera"] = {"schema": "lingbot.camera_actions.v1", "data": data}
        await stream.interact(event_id=f"evt-{number}", **change)

    async def _step(self, stream: Stream) -> None:
        """Ask for the next chunk, as often as it takes: the event's id keeps it one event."""
        number = len(self.seen)
        await self.ask(stream)
        while len(self.seen) == number:
            message = await stream.receive()
            if isinstance(message, Chunk):
                index = message.metadata["transport_chunk_index"]
                assert index == number, f"chunk {index} came where {number} was next"
                self.seen[index] = message.data


async def walk_through_kills(
    server: Served, session_id: str, kills: int, between: int, dice: random.Random
) -> Walker:
    """Kill the server `kills` times, each at a random moment within about `between` chunks."""
    walker = Walker(server, session_id)
    await walker.walk(1)
    for _ in range(kills):
        walking = asyncio.create_task(walker.walk(len(walker.seen) + between))
        await asyncio.wait([walking], timeout=dice.random() * 0.04 * between)
        await server.end()
        with suppress(ServerError, OSError, EOFError, WebSocketException):
            await walking
        await server.start()
    await walker.walk(len(walker.seen) + 3)
    return walker
