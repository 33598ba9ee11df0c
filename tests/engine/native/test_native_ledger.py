"""A running engine says what the caches of its worlds hold, and what became of those that are closed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_checkpoint import request, write_checkpoint

from engine.api import CapacityReached, CloseFailed, EngineError, Tick, UnknownWorld
from engine.native.host import NativeHost
from engine.worker.local import LocalEngine
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from engine.world.caches import Caches, make_caches
from kvcache.capacity import CapacityPlan
from tests.kvcache.failing_memory import FailingMemory

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small"))


class StuckHost(NativeHost):
    def make_caches(self, plan: CapacityPlan) -> Caches:
        self.memory = FailingMemory()
        return make_caches(self.memory, plan)


async def play(engine: LocalEngine | ProcessEngine, world: str, *prompts: str) -> None:
    for index, prompt in enumerate(prompts):
        async for _ in engine.run_chunk(Tick("s", world, 0, f"r{index}", index, (), prompt)):
            pass


async def told(engine: LocalEngine | ProcessEngine, world: str) -> list[object]:
    ledger = await engine.read_ledger(world)
    assert ledger.balanced
    return [fact["fact"] for fact in ledger.facts]


async def test_a_worker_process_tells_the_life_of_a_world(checkpoint: Path) -> None:
    boot = Boot("engine.native:make_host", {"model": str(checkpoint), "threads": 1})
    engine = ProcessEngine(boot, {"OMP_NUM_THREADS": "1"})
    try:
        await engine.start()
        with pytest.raises(UnknownWorld, match="no world w"):
            await engine.read_ledger("w")
        await engine.open_world(request("w"))
        held = ["opened", "build_began", "published"]
        assert await told(engine, "w") == held
        await play(engine, "w", "a meadow", "a meadow", "a desert")
        prompts = ["build_began", "published", "build_began", "released", "published"]
        facts = await told(engine, "w")
        assert facts[:5] == held + prompts[:2]
        assert facts.count("build_began") == 3, "the view, and each prompt once"
        assert "released" in facts
        before = await engine.read_ledger("w")
        published, released = (
            sum(int(fact["bytes"]) for fact in before.facts if fact["fact"] == name)
            for name in ("published", "released")
        )
        assert before.live_bytes == published - released > 0
        await engine.close_world("w")
        after = await engine.read_ledger("w")
        assert (after.live_bytes, after.balanced) == (0, True)
        assert after.facts == (
            {
                "fact": "closed_summary",
                "owner": "w",
                "builds": 3,
                "released_bytes": published,
                "cleanup_failures": 0,
            },
        )
    finally:
        await engine.stop()


async def test_a_failed_close_is_a_tombstone_until_its_retry_and_the_id_is_usable_again(
    checkpoint: Path,
) -> None:
    host = StuckHost(checkpoint, torch.device("cpu"), 2, 0.5)
    engine = LocalEngine(host)
    await engine.start()
    try:
        await engine.open_world(request("w"))
        await play(engine, "w", "a meadow")
        held = (await engine.read_ledger("w")).live_bytes
        host.memory.stuck = True
        for _ in range(2):
            with pytest.raises(CloseFailed, match="device is gone"):
                await engine.close_world("w")
        assert (await told(engine, "w"))[-1] == "cleanup_failed"
        assert (await engine.read_ledger("w")).live_bytes == held == host.memory.live_bytes
        with pytest.raises(EngineError, match="w is open already"):
            await engine.open_world(request("w"))
        with pytest.raises(EngineError, match="closing world w failed: it can only be closed again"):
            await engine.reset_world("w")
        with pytest.raises(EngineError, match="it can only be closed again"):
            await play(engine, "w", "a meadow")
        await engine.open_world(request("other"))
        with pytest.raises(CapacityReached):  # a tombstone's memory is taken
            await engine.open_world(request("third"))
        host.memory.stuck = False
        await engine.close_world("w")
        assert await told(engine, "w") == ["closed_summary"]
        await engine.open_world(request("w"))
        await play(engine, "w", "a meadow")
        for world in ("w", "other"):
            await engine.close_world(world)
        assert host.memory.live_bytes == host.memory.allocations == 0
    finally:
        await engine.stop()


async def test_a_reset_gives_back_the_text_of_the_prompt_that_is_gone(checkpoint: Path) -> None:
    engine = LocalEngine(NativeHost(checkpoint, torch.device("cpu"), 2, 0.8))
    await engine.start()
    try:
        await engine.open_world(request("w"))
        await play(engine, "w", "a meadow")
        with_text = (await engine.read_ledger("w")).live_bytes
        await engine.reset_world("w")
        ledger = await engine.read_ledger("w")
        assert ledger.balanced
        assert ledger.live_bytes < with_text
        assert ledger.facts[-2]["reason"] == "reset"
        await play(engine, "w", "a meadow")
        assert (await engine.read_ledger("w")).live_bytes == with_text
    finally:
        await engine.stop()


async def test_a_model_that_is_loaded_anew_finds_no_first_chunks(checkpoint: Path) -> None:
    host = NativeHost(checkpoint, torch.device("cpu"), 2, 0.8, share_bytes=2**24)
    engine = LocalEngine(host)
    await engine.start()
    try:
        await engine.open_world(request("w"))
        await play(engine, "w", "a meadow")
        store = host._first_chunks
        assert store is not None
        assert len(store) == 1
        host.load()
        assert len(store) == 0
    finally:
        await engine.stop()
