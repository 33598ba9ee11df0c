"""The server outlives whatever happens in the worker process."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_host import request, tick

from engine.api import (
    ChunkCommitted,
    ChunkFailed,
    ChunkReady,
    EncodedChunk,
    EngineError,
    EngineLost,
    EngineState,
    WorldRefused,
)
from engine.worker.child import Child
from engine.worker.messages import Boot, Cancel, Done, Open, Run
from engine.worker.process import ProcessEngine


@asynccontextmanager
async def engine(
    factory: str = "scripted_host:process_host", delays: tuple[float, ...] = (0.01,), **arguments: object
) -> AsyncIterator[ProcessEngine]:
    process = ProcessEngine(Boot(factory, arguments), {"OMP_NUM_THREADS": "1"}, delays)
    try:
        await process.start()
        yield process
    finally:
        await process.stop()


async def play(process: ProcessEngine, world: str, index: int) -> EncodedChunk:
    ready, committed = [answer async for answer in process.run_chunk(tick(world, index))]
    assert isinstance(ready, ChunkReady) and isinstance(committed, ChunkCommitted)
    assert ready.tick == committed.tick == tick(world, index)
    return ready.media


async def until(process: ProcessEngine, state: EngineState) -> None:
    async with asyncio.timeout(60):
        while process.status().state is not state:  # noqa: ASYNC110 (an operator polls, too)
            await asyncio.sleep(0.01)


def worker_pid(process: ProcessEngine) -> int:
    assert process._child is not None
    return process._child.process.pid


async def test_a_world_plays_in_a_process_of_its_own() -> None:
    async with engine() as process:
        assert process.status().state is EngineState.READY
        assert process.status().pages_total == 0  # nothing was opened yet, nothing was reported
        await process.open_world(request("w"))
        assert [len((await play(process, "w", index)).frames) for index in range(3)] == [9, 12, 12]
        status = process.status()
        assert (status.worlds, status.queue_depth, status.pages_in_use, status.pages_total) == (1, 0, 3, 24)
        await process.reset_world("w")
        await play(process, "w", 0)
        await process.close_world("w")
        assert process.status().worlds == 0
        assert worker_pid(process) != os.getpid()


async def test_refusals_cross_the_border_whole() -> None:
    async with engine() as process:
        with pytest.raises(WorldRefused, match="allowed is plain") as refusal:
            await process.open_world(replace(request("w"), scene="moon"))
        assert refusal.value.field == "scene"


@pytest.mark.parametrize("stage", ["probe", "decode", "write", "commit"])
async def test_a_worker_that_exits_loses_its_worlds_and_is_started_again(stage: str, tmp_path: Path) -> None:
    once = str(tmp_path / "died")
    async with engine(deeds={f"{stage} 1": "exit"}, once=once) as process:
        await process.open_world(request("w"))
        first = await play(process, "w", 0)
        with pytest.raises(EngineLost, match="the worker process exited with code 7"):
            await play(process, "w", 1)
        assert process.status().worlds == 0
        await until(process, EngineState.READY)
        await process.open_world(request("again"))
        assert (await play(process, "again", 0)).frames == first.frames
        with pytest.raises(EngineLost, match="exited with code 7"):  # also for who was idle meanwhile
            await play(process, "w", 1)
        await process.close_world("w")
        await play(process, "again", 1)


@pytest.mark.parametrize("stage", ["begin 1", "commit 1", "reset 1", "rollback 1"])
async def test_a_worker_whose_host_is_lost_ends_says_why_and_is_started_again(
    stage: str, tmp_path: Path
) -> None:
    deeds = {stage: "lose"} | ({"probe 1": "raise"} if stage == "rollback 1" else {})
    async with engine(deeds=deeds, once=str(tmp_path / "lost")) as process:
        await process.open_world(request("w"))
        await play(process, "w", 0)
        with pytest.raises(EngineLost, match=r"exited with code 1 .*the device fell off the bus"):
            await (process.reset_world("w") if stage == "reset 1" else play(process, "w", 1))
        await until(process, EngineState.READY)
        await process.open_world(request("again"))
        await play(process, "again", 0)


async def test_a_killed_worker_fails_every_waiter_and_is_started_again() -> None:
    async with engine() as process:
        for world in ("a", "b"):
            await process.open_world(request(world))
        os.kill(worker_pid(process), signal.SIGSTOP)
        waiting = [
            asyncio.ensure_future(play(process, "a", 0)),
            asyncio.ensure_future(play(process, "b", 0)),
            asyncio.ensure_future(process.reset_world("a")),
        ]
        await asyncio.sleep(0)
        os.kill(worker_pid(process), signal.SIGKILL)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [EngineLost] * 3
        assert "killed by signal 9" in str(results[0])
        status = process.status()
        assert status.state is EngineState.RESTARTING and "started again" in status.reason
        with pytest.raises(EngineLost):
            await process.open_world(request("c"))
        await process.close_world("a")  # its memory went with the process
        await until(process, EngineState.READY)
        assert process.status().reason == ""
        await process.open_world(request("c"))
        await play(process, "c", 0)


async def test_a_model_that_raises_does_not_cost_the_process() -> None:
    async with engine(deeds={"probe 1": "raise"}) as process:
        await process.open_world(request("w"))
        await play(process, "w", 0)
        pid = worker_pid(process)
        with pytest.raises(ChunkFailed, match="RuntimeError: the model broke"):
            await play(process, "w", 1)
        assert worker_pid(process) == pid


async def test_a_model_that_holds_its_interpreter_lock_does_not_block_the_server() -> None:
    async with engine(deeds={"probe 0": "hog"}) as process:
        await process.open_world(request("w"))
        running = asyncio.ensure_future(play(process, "w", 0))
        beats = 0
        while not running.done():  # four probes of three seconds, each without a single worker thread alive
            await asyncio.sleep(0.05)
            beats += 1
            process.status()
            if beats == 20:
                break
        assert beats == 20 and not running.done()
        stopping = time.monotonic()
        await process.stop()
        assert time.monotonic() - stopping < 10  # it is killed: nobody waits for a lock
        with pytest.raises(EngineLost):
            await running


async def test_a_model_that_cannot_be_loaded_says_why() -> None:
    with pytest.raises(EngineError, match=r"^RuntimeError: no such checkpoint$"):
        async with engine("scripted_host:broken_host"):
            pass
    with pytest.raises(EngineError, match="ModuleNotFoundError: No module named 'nowhere'"):
        async with engine("nowhere:host"):
            pass


async def test_a_model_that_is_refused_is_one_sentence_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(EngineError, match=r"^/nope: no such folder$"):
        async with engine("scripted_host:refusing_host"):
            pass
    assert "Traceback" not in caplog.text


async def test_a_worker_that_dies_while_loading_gives_its_last_words() -> None:
    with pytest.raises(EngineError, match=r"exited with code 3 \(out of memory\)"):
        async with engine("scripted_host:mute_host"):
            pass


async def test_what_the_worker_prints_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "worker")
    async with engine(deeds={"decode 0": "print", "probe 1": "raise"}) as process:
        await process.open_world(request("w"))
        await play(process, "w", 0)
        with pytest.raises(ChunkFailed):
            await play(process, "w", 1)
    levels = {record.message: record.levelname for record in caplog.records if record.name == "worker"}
    assert levels["a word from the model"] == "INFO"
    assert levels["RuntimeError: the model broke"] == "ERROR"  # the traceback's last line
    said = [record for record in caplog.records if record.name == "worker" and "world w" in record.message]
    assert [record.levelname for record in said] == ["ERROR"]
    assert said[0].message.startswith("engine.worker.loop: ")  # the level is said once


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


def test_the_server_side_imports_no_torch() -> None:
    program = "import sys; import engine.worker.process; print('torch' in sys.modules, 'av' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.split() == ["False", "False"]


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
