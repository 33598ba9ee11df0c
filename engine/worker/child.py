"""A worker process as the server sees it: a pipe, its log, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, cast

from engine.worker.channel import AsyncChannel
from engine.worker.messages import Answer, Boot

log: Final = logging.getLogger("worker")

LAST_WORDS: Final = 40  # lines of log that are kept to explain a crash
HUGE_PAGES: Final = "glibc.malloc.hugetlb=1"  # a tiny chunk takes 3% less; nothing where there are none


class Words:
    """What a worker says: how its model was loaded, then its answers, up to its end."""

    def __init__(self, deliver: Callable[[Answer], object]) -> None:
        self.first: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        self._deliver = deliver

    def hear(self, message: object | None) -> None:
        """Take a message; None is the end."""
        answer = cast(Answer | None, message)
        if answer is None:
            self.ended.set()
        if not self.first.done():
            self.first.set_result(answer)
        elif answer is not None:
            self._deliver(answer)


class Child:
    """Spawned, never forked. What it prints goes to the log; a line without a level has the last one's."""

    def __init__(self, process: subprocess.Popen[bytes], channel: AsyncChannel, words: Words) -> None:
        self.process = process
        self.channel = channel
        self.words = words
        self._lines: deque[str] = deque(maxlen=LAST_WORDS)
        self._relay: asyncio.Task[None] | None = None

    @classmethod
    async def spawn(
        cls, boot: Boot, environment: Mapping[str, str], deliver: Callable[[Answer], object]
    ) -> Child:
        """Start a process and send it `boot`; `environment` is added to this process's own.

        `deliver` is called with what it says behind its first word.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            words = Words(deliver)
            channel = await AsyncChannel.over(ours, words.hear)  # first: a cancel here leaves no process
            child = cls(_start(theirs.fileno(), environment), channel, words)
        child._relay = asyncio.create_task(child._relay_log())
        child.channel.send(boot)
        return child

    async def end(self, grace_s: float) -> str:
        """Close the pipe, which ends the process; kill it after `grace_s`; say how it went. Repeatable."""
        self.channel.close()
        try:
            async with asyncio.timeout(grace_s):
                await _exited(self.process)
        except TimeoutError:
            self.process.kill()
            await _exited(self.process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # a helper of the model's may hold the device
        assert self._relay is not None
        await asyncio.wait([self._relay], timeout=grace_s)  # or one that left the group the output
        self._relay.cancel()
        return self._obituary()

    def _obituary(self) -> str:
        code = self.process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        last = next((line for line in reversed(self._lines) if line.strip()), "")
        return f"the worker process {how}" + (f" ({last[:200]})" if code and last else "")

    async def _relay_log(self) -> None:
        assert self.process.stdout is not None
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self.process.stdout
        )
        try:
            level, levels = logging.INFO, logging.getLevelNamesMapping()
            while line := await _read_line(reader):
                text = line.decode(errors="replace").rstrip()
                self._lines.append(text)
                head, _, rest = text.partition(" ")
                if (named := levels.get(head)) is not None:
                    level, text = named, rest
                log.log(level, "%s", text)
        finally:
            transport.close()


def _start(descriptor: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    tunables = [HUGE_PAGES, os.environ.get("GLIBC_TUNABLES")]  # the last word on one of them counts
    ours = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "GLIBC_TUNABLES": ":".join(filter(None, tunables)),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "engine.worker.main", str(descriptor)],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **ours, **environment},
        start_new_session=True,  # Ctrl-C is the server's to hear
    )


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """A line, or a part of an overlong one; empty at the end."""
    try:
        return await reader.readline()
    except ValueError:  # the reader has dropped what exceeds its limit
        return b"...\n"


async def _exited(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process without a thread where the system can tell (Linux)."""
    if process.poll() is not None:
        return
    if sys.platform != "linux":
        await asyncio.to_thread(process.wait)
        return
    descriptor = os.pidfd_open(process.pid)
    try:
        loop = asyncio.get_running_loop()
        exited = asyncio.Event()
        loop.add_reader(descriptor, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)
    process.wait()
