"""The real model behind the worker's loop, and in a worker process."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from PIL import Image
from small_checkpoint import HEIGHT, WIDTH, request, write_checkpoint

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    ChunkCommitted,
    ChunkReady,
    EncodedChunk,
    Engine,
    Tick,
    WorldRefused,
)
from engine.checkpoint.index import CheckpointRefused
from engine.native import NativeHost, make_host
from engine.native.host import default_threads
from engine.native.memory import available_bytes, cgroup_left
from engine.worker.local import LocalEngine
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from engine.world.caches import Caches, make_caches
from kvcache.capacity import CapacityPlan
from kvcache.memory import Allocation, Memory

WALK = ({"keys": ("w",)},) * 3
TURN = ({"keys": ("l",)},) * 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small"))


@asynccontextmanager
async def local(checkpoint: Path, max_worlds: int = 4) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(make_host(str(checkpoint), 1, max_worlds=max_worlds))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def tick(world: str, index: int, motions: object = WALK, prompt: str = "a meadow") -> Tick:
    return Tick("s", world, 0, f"r{index}", index, (), prompt, (), {"camera": motions})  # type: ignore[dict-item]


async def play(engine: Engine, asked: Tick) -> EncodedChunk:
    ready, committed = [answer async for answer in engine.run_chunk(asked)]
    assert isinstance(ready, ChunkReady) and isinstance(committed, ChunkCommitted)
    return ready.media


async def walk(engine: Engine, world: str, motions: object = WALK, chunks: int = 4) -> list[EncodedChunk]:
    return [await play(engine, tick(world, index, motions)) for index in range(chunks)]


async def test_the_card_says_what_the_checkpoint_is(checkpoint: Path) -> None:
    card = make_host(str(checkpoint), 1).load()
    assert (card.name, card.width, card.height, card.fps) == ("small", WIDTH, HEIGHT, 16)
    assert (card.first_chunk_frames, card.chunk_frames, card.frames_per_block, card.steps) == (9, 12, 3, 2)
    assert [scene.name for scene in card.scenes] == ["meadow", "desert"]
    assert card.capacity >= 1


async def test_a_scene_plays_9_then_12_frames(checkpoint: Path) -> None:
    async with local(checkpoint) as engine:
        await engine.open_world(request())
        media = await walk(engine, "w")
    assert [len(chunk.frames) for chunk in media] == [9, 12, 12, 12]
    context = av.CodecContext.create("h264", "r")
    frames = [frame for unit in media[1].frames for frame in context.decode(av.Packet(unit))]
    assert len(frames) + len(context.decode(None)) == 12
    assert (media[0].width, media[0].height) == (WIDTH, HEIGHT)


async def test_interleaved_sessions_give_the_bytes_of_sessions_alone(checkpoint: Path) -> None:
    asked = [
        (request("a"), WALK),
        (request("b", seed=4), TURN),
        (request("c", scene="desert", prompt="a desert"), WALK),
    ]
    alone = []
    for each, motions in asked:
        async with local(checkpoint) as engine:
            await engine.open_world(each)
            alone.append(await walk(engine, each.world, motions))
    async with local(checkpoint) as engine:
        for each, _ in asked:
            await engine.open_world(each)
        together = await asyncio.gather(*(walk(engine, each.world, motions) for each, motions in asked))
    assert together == alone
    assert len({chunks[-1].digest for chunks in alone}) == 3


async def test_a_cancelled_chunk_and_a_reset_leave_no_trace(checkpoint: Path) -> None:
    async with local(checkpoint) as engine:
        await engine.open_world(request())
        first = await walk(engine, "w")
        answers = engine.run_chunk(tick("w", 4, TURN))
        running = asyncio.ensure_future(anext(answers))
        await asyncio.sleep(0)
        await engine.cancel_chunk("w")
        try:
            await running
        except ChunkCancelled:
            pass
        else:
            await anext(answers)  # its pixels had left already
        await engine.reset_world("w")
        assert await walk(engine, "w") == first


async def test_a_clients_picture_begins_the_world(checkpoint: Path) -> None:
    buffer = BytesIO()
    Image.new("RGB", (100, 80), (250, 40, 40)).save(buffer, "JPEG")
    async with local(checkpoint) as engine:
        await engine.open_world(request("own", scene=None, image=buffer.getvalue()))
        await engine.open_world(request("scene"))
        own, scene = await play(engine, tick("own", 0)), await play(engine, tick("scene", 0))
    assert own.digest != scene.digest


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"width": 40}, "width", "got 40"),
        ({"width": 1600, "height": 1600}, "width", "1600x1600"),
        ({"scene": "moon"}, "scene", "scene is 'moon'; allowed are meadow, desert"),
        ({"scene": "../secret"}, "scene", "allowed are meadow, desert"),
        ({"scene": None}, "image", "exactly one"),
        ({"scene": None, "image": b"GIF89a"}, "image", "not a readable PNG, JPEG or WebP"),
        ({"flow_shift": -1.0}, "flow_shift", "flow_shift"),
    ],
)
async def test_a_bad_request_is_refused_by_field(
    checkpoint: Path, changes: dict[str, object], field: str, reason: str
) -> None:
    async with local(checkpoint) as engine:
        with pytest.raises(WorldRefused, match=reason) as refusal:
            await engine.open_world(request(**changes))
        assert refusal.value.field == field
        assert engine.status().worlds == 0


async def test_worlds_beyond_capacity_are_refused_until_one_leaves(checkpoint: Path) -> None:
    async with local(checkpoint, max_worlds=2) as engine:
        await engine.open_world(request("a"))
        await engine.open_world(request("b"))
        status = engine.status()
        assert status.pages_in_use == status.pages_total > 0
        with pytest.raises(CapacityReached):
            await engine.open_world(request("c"))
        await engine.close_world("a")
        await engine.open_world(request("c"))


class Exhausted(Memory):
    def allocate(self, shapes: Iterable[Sequence[int]], dtype: torch.dtype) -> Allocation:
        raise torch.OutOfMemoryError("tried to allocate 20 GiB")


class FullHost(NativeHost):
    def make_caches(self, plan: CapacityPlan) -> Caches:
        return make_caches(Exhausted(), plan)


async def test_a_device_without_memory_refuses_and_keeps_nothing(checkpoint: Path) -> None:
    host = FullHost(checkpoint, torch.device("cpu"), 4, 0.8)
    engine = LocalEngine(host)
    await engine.start()
    with pytest.raises(CapacityReached, match="no memory is left for another world: tried to allocate"):
        await engine.open_world(request())
    assert (engine.status().worlds, host.usage().pages_in_use) == (0, 0)
    await engine.stop()


async def test_it_plays_the_same_bytes_in_a_process_of_its_own(checkpoint: Path) -> None:
    async with local(checkpoint) as engine:
        await engine.open_world(request())
        inside = await walk(engine, "w")
    arguments = {"model": str(checkpoint), "threads": 1}
    process = ProcessEngine(Boot("engine.native:make_host", arguments), {"OMP_NUM_THREADS": "1"})
    card = await process.start()
    try:
        assert card.name == "small"
        await process.open_world(request())
        assert await walk(process, "w") == inside
    finally:
        await process.stop()


def test_a_folder_that_is_no_checkpoint_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckpointRefused, match=r"model_index\.json: no such file"):
        make_host(str(tmp_path), 1).load()


async def test_the_largest_picture_is_the_checkpoint_s_own(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    shutil.copytree(checkpoint, folder)
    index = json.loads((folder / "model_index.json").read_text())
    index["worldline"]["max_pixels"] = WIDTH * HEIGHT
    (folder / "model_index.json").write_text(json.dumps(index))
    engine = LocalEngine(make_host(str(folder), 1))
    assert (await engine.start()).max_pixels == WIDTH * HEIGHT
    try:
        await engine.open_world(request())
        told = f"got {WIDTH + 16}x{HEIGHT}, expected at most {WIDTH * HEIGHT}"
        with pytest.raises(WorldRefused, match=told):
            await engine.open_world(request("larger", width=WIDTH + 16))
    finally:
        await engine.stop()


def test_memory_is_what_the_machine_and_its_container_have_left(tmp_path: Path) -> None:
    assert 0 < available_bytes(torch.device("cpu")) < 2**50
    assert cgroup_left(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    assert cgroup_left(tmp_path) == 450
    (tmp_path / "memory.max").write_text("max\n")
    assert cgroup_left(tmp_path) is None


def test_by_default_a_core_is_left_to_the_server() -> None:
    assert [default_threads(cores) for cores in (1, 2, 4, 5, 64)] == [1, 1, 3, 4, 4]


def test_frames_are_pixels(checkpoint: Path) -> None:
    host = make_host(str(checkpoint), 1)
    host.load()
    world = host.open(request())
    chunk = world.begin_chunk(tick("w", 0))
    assert len(list(chunk.forwards())) == 2
    frames = chunk.decode()
    assert frames.shape == (9, HEIGHT, WIDTH, 3) and frames.dtype == np.uint8
    world.rollback()
    world.close()
    world.close()
    assert host.usage().pages_in_use == 0
