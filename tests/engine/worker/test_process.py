"""The server outlives whatever happens in the worker process."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from process_steps import engine, play, until, worker_pid
from scripted_host import request

from engine.api import (
    ChunkFailed,
    EngineError,
    EngineLost,
    EngineState,
    WorldRefused,
)


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


@pytest.mark.parametrize("given", [None, "glibc.malloc.hugetlb=0"])
async def test_a_worker_asks_for_huge_pages_and_the_user_has_the_last_word(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if given is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", given)
    async with engine() as process:
        tunables = tunables_of(worker_pid(process))
    assert tunables == ["glibc.malloc.hugetlb=1", *([] if given is None else [given])]


def tunables_of(pid: int) -> list[str]:
    """In the order in which its C library reads them; it puts NULs between them as it does."""
    environment = Path(f"/proc/{pid}/environ").read_text().replace("\0", ":")
    words = environment.partition("GLIBC_TUNABLES=")[2].split(":")
    return list(itertools.takewhile(lambda word: word.startswith("glibc."), words))


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


def test_the_server_side_imports_no_torch() -> None:
    program = "import sys; import engine.worker.process; print('torch' in sys.modules, 'av' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.split() == ["False", "False"]
