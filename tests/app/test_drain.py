"""`worldline serve` and its signals, in a process of its own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.client import Client

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "app.cli", "serve", "--engine", "pattern", "--port", "0"]
    options = ["--data", str(tmp_path), "--log-format", "json"]
    with subprocess.Popen(
        [*command, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        yield process, url
        process.kill()


async def test_sigterm_tells_every_stream_closes_with_1001_and_exits_0(
    serving: tuple[subprocess.Popen[str], str],
) -> None:
    process, url = serving
    async with Client(url) as client:
        await client.create(prompt="a meadow", mode="stepped")  # nobody plays it
        async with (
            client.stream(prompt="a meadow") as first,
            client.stream(prompt="a meadow", mode="stepped") as second,
            client.socket() as silent,
        ):
            await second.keys("w")
            await asyncio.gather(first.chunk(), second.chunk())
            process.send_signal(signal.SIGTERM)
            await asyncio.gather(first.done(), second.done(), silent.socket.wait_closed())
            for stream in (first, second):
                assert "session.draining" in [message["type"] for message in stream.messages]
                assert stream.socket.close_code == 1001
    _, errors = await asyncio.to_thread(process.communicate, None, 30)
    assert process.returncode == 0
    assert "Traceback" not in errors


def worker_of(process: subprocess.Popen[str]) -> int:
    """The process that owns the device."""
    for tasks in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            if b"engine.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("the server has no worker")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_server_at_once(
    serving: tuple[subprocess.Popen[str], str], second: signal.Signals
) -> None:
    process, url = serving
    worker = worker_of(process)
    async with Client(url) as client, client.stream(prompt="a meadow") as stream:
        await stream.chunk()
        os.kill(worker, signal.SIGSTOP)  # it will not put a world away, so that the server has to wait
        try:
            process.send_signal(signal.SIGTERM)
            await stream.message("session.draining")
            assert process.poll() is None
            process.send_signal(second)
            assert await asyncio.to_thread(process.wait, 20) == 128 + second
        finally:
            os.kill(worker, signal.SIGCONT)  # it ends with its server
