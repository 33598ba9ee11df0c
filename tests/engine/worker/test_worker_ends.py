"""No worker outlives its server or its engine, and nothing that it started outlives it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from process_steps import engine, until, worker_pid
from scripted_host import request, tick

from engine.api import EngineState
from engine.worker.child import Child
from engine.worker.messages import Boot, Cancel, Done, Open, Run


def test_the_worker_ends_with_its_server() -> None:
    program = (
        "import asyncio\n"
        "from engine.worker.messages import Boot\n"
        "from engine.worker.process import ProcessEngine\n"
        "async def main():\n"
        "    engine = ProcessEngine(Boot('scripted_host:process_host'))\n"
        "    await engine.start()\n"
        "    print(engine._child.process.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdout is not None
        worker = int(server.stdout.readline())
        descriptor = os.pidfd_open(worker)
        server.kill()
    try:
        ended, _, _ = select.select([descriptor], [], [], 30)
        assert ended
    finally:
        os.close(descriptor)


async def test_the_worker_ends_with_a_server_that_can_t_hear_its_answers_any_more() -> None:
    opened = asyncio.Event()
    child = await Child.spawn(
        Boot("scripted_host:process_host", {"deeds": {"probe 0": "hang"}}),
        {},
        lambda answer: opened.set() if answer == Done(2) else None,
    )
    for message in (Open(1, request("a")), Open(2, request("b"))):
        child.channel.send(message)
    await opened.wait()
    os.kill(child.process.pid, signal.SIGSTOP)  # so that it reads the rest from a server that is gone
    for message in (Run(3, tick("a", 0), None), Run(4, tick("b", 0), None), Cancel(4)):
        child.channel.send(message)
    child.channel.close()
    await child.words.ended.wait()
    os.kill(child.process.pid, signal.SIGCONT)
    try:
        await asyncio.to_thread(child.process.wait, 30)
    finally:
        await child.end(5.0)


async def test_stop_ends_the_process_and_may_be_called_again() -> None:
    async with engine() as process:
        pid = worker_pid(process)
        await process.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert process.status().state is EngineState.STOPPED
        await process.stop()


async def test_a_stop_while_the_worker_restarts_leaves_no_process() -> None:
    async with engine(delays=(60.0,)) as process:
        os.kill(worker_pid(process), signal.SIGKILL)
        await until(process, EngineState.RESTARTING)
        await process.stop()
        assert process._child is None


async def test_a_child_can_be_ended_again_after_a_cancelled_end() -> None:
    child = await Child.spawn(Boot("scripted_host:process_host"), {}, lambda answer: None)
    first = await child.end(5.0)
    assert await child.end(5.0) == first == "the worker process exited with code 0"


@pytest.mark.parametrize("killed", [False, True])
async def test_what_the_model_started_ends_with_the_worker(tmp_path: Path, killed: bool) -> None:
    note = tmp_path / "pid"
    async with engine("scripted_host:helped_host", pid=str(note)) as process:
        helper = os.pidfd_open(int(note.read_text()))
        if killed:
            os.kill(worker_pid(process), signal.SIGKILL)
            await until(process, EngineState.RESTARTING)
            await until(process, EngineState.READY)
        else:
            await process.stop()
        try:
            assert select.select([helper], [], [], 10)[0], "it still runs"
        finally:
            os.close(helper)
