"""The plan counts what sessions take, text included: so many fit as were planned, and not one more."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_checkpoint import HEIGHT, WIDTH, request, write_checkpoint

from engine.api import CapacityReached, Tick
from engine.checkpoint.load import load_model
from engine.native.host import NativeHost
from engine.worker.local import LocalEngine
from engine.world.caches import Caches, make_caches
from kvcache.capacity import CapacityPlan, required_bytes, required_together, session_bytes
from kvcache.geometry import Geometry
from kvcache.memory import Memory

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def geometry(checkpoint: Path) -> Geometry:
    return load_model(checkpoint).geometry(WIDTH, HEIGHT)


class SizedHost(NativeHost):
    """On a device with so many bytes for caches."""

    def __init__(self, checkpoint: Path, available: int) -> None:
        super().__init__(checkpoint, torch.device("cpu"), 64, 1.0)
        self._bytes = available
        self.memory = Memory()

    def available(self) -> int:
        return self._bytes + (2**30 if self._model is None else 0)  # weights are not loaded yet

    def make_caches(self, plan: CapacityPlan) -> Caches:
        return make_caches(self.memory, plan)


async def play(engine: LocalEngine, world: str, width: int = WIDTH) -> None:
    await engine.open_world(request(world, width=width))
    async for _ in engine.run_chunk(Tick("s", world, 0, f"r-{world}", 0, (), "a meadow")):
        pass


async def test_a_session_takes_what_its_geometry_says(checkpoint: Path, geometry: Geometry) -> None:
    host = SizedHost(checkpoint, 2**30)
    engine = LocalEngine(host)
    await engine.start()
    await play(engine, "a")
    assert geometry.cross_bytes > 0
    assert host.memory.live_bytes == session_bytes(geometry) - geometry.model_state_bytes
    await engine.stop()


async def test_as_many_are_admitted_as_are_planned_and_no_more(checkpoint: Path, geometry: Geometry) -> None:
    host = SizedHost(checkpoint, required_bytes(geometry, 4) - 1)
    engine = LocalEngine(host)
    card = await engine.start()
    assert card.capacity == 3
    for world in "abc":
        await play(engine, world)
    with pytest.raises(CapacityReached):
        await play(engine, "d")
    assert host.memory.live_bytes <= required_bytes(geometry, 3)
    await engine.close_world("b")
    await play(engine, "d")
    await engine.stop()


@pytest.mark.parametrize("short", [0, 1])
async def test_a_larger_picture_leaves_room_by_the_same_count(checkpoint: Path, short: int) -> None:
    model = load_model(checkpoint)
    sizes = [model.geometry(2 * WIDTH, HEIGHT), model.geometry(WIDTH, HEIGHT)]
    engine = LocalEngine(SizedHost(checkpoint, required_together(sizes) - short))
    await engine.start()
    await play(engine, "large", 2 * WIDTH)
    if short:
        with pytest.raises(CapacityReached):  # by one byte, which nobody's text may be taken from
            await play(engine, "small")
    else:
        await play(engine, "small")
    await engine.stop()
