"""The pattern keeps every promise of the engine's protocol, and its picture tells what was asked."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from io import BytesIO

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from pattern_steps import TURN, play, request, started, tick
from PIL import Image

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    ChunkFailed,
    ChunkReady,
    Control,
    EncodedChunk,
    EngineLost,
    EngineState,
    UnknownWorld,
    WorldRefused,
)
from engine.camera.reducer import CameraReducer
from engine.pattern.engine import PatternEngine
from engine.pattern.host import PatternHost
from engine.pattern.marks import cell_size, read_number
from engine.worker.local import LocalEngine


def pictures(media: EncodedChunk) -> list[NDArray[np.uint8]]:
    context = av.CodecContext.create("h264" if media.kind == "h264" else "mjpeg", "r")
    frames = [frame for unit in media.frames for frame in context.decode(av.Packet(unit))]
    return [frame.to_ndarray(format="rgb24") for frame in frames + context.decode(None)]


def skyline(frame: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The band above the horizon, right of the counter."""
    return frame[20:31].astype(np.int64)


def shift_between(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> int:
    """By how many columns the skyline moved to the left."""
    a, b = skyline(before), skyline(after)
    errors = {
        by: np.abs(a[:, max(by, 0) : 96 + min(by, 0)] - b[:, max(-by, 0) : 96 - max(by, 0)]).mean()
        for by in range(-40, 41)
    }
    return min(errors, key=errors.__getitem__)


async def test_chunks_have_9_then_12_frames_and_show_their_number() -> None:
    engine = await started()
    for index in range(3):
        media = await play(engine, tick(index))
        frames = pictures(media)
        assert len(frames) == (12 if index else 9)
        assert [read_number(frame) for frame in frames] == [index] * len(frames)
    assert (media.first_frame, media.fps, media.width, media.height) == (21, 16, 96, 64)


async def test_a_yaw_moves_the_picture_in_the_very_chunk_that_it_conditions() -> None:
    engine = await started()
    still = pictures(await play(engine, tick(0)))
    assert shift_between(still[0], still[-1]) == 0
    turned = pictures(await play(engine, tick(1, TURN)))
    assert shift_between(still[-1], turned[0]) > 0
    assert shift_between(still[-1], turned[-1]) == round(18 * 96 / 80)  # three times 6 degrees, 80 across
    again = pictures(await play(engine, tick(2)))
    assert shift_between(turned[-1], again[-1]) == 0


async def test_turning_left_moves_it_the_other_way() -> None:
    engine = await started()
    frames = pictures(await play(engine, tick(0, ({"keys": ("j",)},) * 3)))
    assert shift_between(frames[0], frames[-1]) < 0


async def test_held_keys_light_up() -> None:
    engine = await started()
    dark = pictures(await play(engine, tick(0)))[-1]
    lit = pictures(await play(engine, tick(1, ({"keys": ("w",)},) * 3)))[-1]
    cell = cell_size(96) // 2
    key = np.s_[-7 * cell : -2 * cell, cell : 4 * cell]
    assert lit[key].max() > 200 > 150 > dark[key].max()


async def test_walking_moves_the_ground() -> None:
    engine = await started()
    frames = pictures(await play(engine, tick(0, ({"keys": ("w",)},) * 3)))
    assert np.abs(frames[0][40:50].astype(int) - frames[-1][40:50]).mean() > 5


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (
            "lingbot.camera_actions.v1",
            {"mode": "state", "transitions": ({"actions": ("l",), "client_ts_ms": 5},)},
        ),
        ("lingbot.camera_actions.v1", {"mode": "script", "frames": (("l",), ("l",), ("l",))}),
        (
            "lingbot.camera_trajectory.v1",
            {
                "poses": (((0.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 0.0), (-1.0, 0.0, 0.0, 0.0), (0, 0, 0, 1)),),
                "intrinsics": ((500.0, 500.0, 416.0, 240.0),),
            },
        ),
    ],
)
async def test_it_obeys_every_control_that_the_reducer_takes(schema: str, data: object) -> None:
    reducer = CameraReducer()
    state = reducer.apply(reducer.initial(), Control("camera", schema, data))  # type: ignore[arg-type]
    _, motions = reducer.advance(state)
    engine = await started()
    still = pictures(await play(engine, tick(0)))[-1]
    moved = pictures(await play(engine, tick(1, motions)))[-1]
    assert np.abs(skyline(still) - skyline(moved)).mean() > 5


async def test_it_stands_still_where_there_is_no_camera() -> None:
    engine = await started()
    frames = pictures(await play(engine, tick(0, None)))
    assert shift_between(frames[0], frames[-1]) == 0


async def test_the_prompt_the_seed_and_the_scene_change_the_picture() -> None:
    asked = [request("w"), request("x", seed=8), request("y", scene="plain"), request("z")]
    engine = await started(*asked)
    shown = [await play(engine, tick(0, world=world)) for world in "wxy"]
    shown.append(await play(engine, tick(0, prompt="at night", world="z")))
    assert len({media.digest for media in shown}) == 4


async def test_equal_worlds_give_equal_bytes() -> None:
    engine = await started(request("a"), request("b"))

    async def walk(world: str) -> list[EncodedChunk]:
        return [await play(engine, tick(index, TURN, world=world)) for index in range(3)]

    first, second = await asyncio.gather(walk("a"), walk("b"))
    assert first == second


async def test_a_clients_image_is_the_backdrop() -> None:
    buffer = BytesIO()
    Image.new("RGB", (200, 100), (250, 10, 10)).save(buffer, "PNG")
    engine = await started(request(image=buffer.getvalue(), scene=None))
    frame = pictures(await play(engine, tick(0, prompt="")))[0]
    assert frame[32, 60, 0] > 180 > 100 > frame[32, 60, 1]


async def test_jpeg_sessions_get_jpegs() -> None:
    engine = await started(request(media="jpeg"))
    media = await play(engine, tick(0))
    assert media.codec == "mjpeg"
    assert [read_number(frame) for frame in pictures(media)] == [0] * 9


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"width": 100}, "width", "width is 100; a positive multiple of 16"),
        ({"height": 0}, "height", "height is 0"),
        ({"width": 1600, "height": 1600}, "width", "1600x1600 is too large"),
        ({"fps": 0}, "fps", "fps is 0"),
        ({"scene": "moon"}, "scene", "scene is 'moon'; allowed are harbour, plain, city"),
        ({"scene": None}, "image", "exactly one"),
        ({"scene": None, "image": b"x"}, "image", "not a readable PNG"),
    ],
)
async def test_a_bad_request_is_refused_by_field(changes: dict[str, object], field: str, reason: str) -> None:
    engine = PatternEngine()
    await engine.start()
    with pytest.raises(WorldRefused, match=reason) as refusal:
        await engine.open_world(request(**changes))
    assert refusal.value.field == field
    assert engine.status().worlds == 0


async def test_a_cancelled_chunk_leaves_no_trace() -> None:
    engine = await started(request("w"), request("undisturbed"), chunk_seconds=30)
    running = asyncio.ensure_future(play(engine, tick(0, TURN)))
    await asyncio.sleep(0)
    await engine.cancel_chunk("w")
    with pytest.raises(ChunkCancelled):
        await running
    engine.chunk_seconds = 0
    assert await play(engine, tick(0)) == await play(engine, tick(0, world="undisturbed"))


async def test_once_its_pixels_left_a_chunk_is_committed_even_if_the_reader_leaves() -> None:
    engine = await started()
    async with aclosing(engine.run_chunk(tick(0))) as answers:  # type: ignore[type-var]
        assert isinstance(await anext(answers), ChunkReady)
    assert (await play(engine, tick(1))).first_frame == 9


async def test_a_chunk_out_of_order_is_refused() -> None:
    engine = await started()
    with pytest.raises(ChunkFailed, match="chunk 3 was asked for; next is 0"):
        await play(engine, tick(3))


async def test_a_reset_begins_anew() -> None:
    engine = await started()
    first = await play(engine, tick(0, TURN))
    await play(engine, tick(1, TURN))
    await engine.reset_world("w")
    assert await play(engine, tick(0, TURN, epoch=1)) == first


async def test_close_cancels_releases_and_is_idempotent() -> None:
    engine = await started(chunk_seconds=30)
    running = asyncio.ensure_future(play(engine, tick(0)))
    await asyncio.sleep(0)
    assert engine.status().queue_depth == 1
    await engine.close_world("w")
    await engine.close_world("w")
    with pytest.raises(ChunkCancelled):
        await running
    with pytest.raises(UnknownWorld):
        await play(engine, tick(0))
    assert (engine.status().worlds, engine.status().queue_depth) == (0, 0)


async def test_a_full_engine_refuses() -> None:
    engine = await started(request("a"), request("b"), capacity=2)
    with pytest.raises(CapacityReached):
        await engine.open_world(request("c"))


async def test_stop_loses_every_world() -> None:
    engine = await started(chunk_seconds=30)
    running = asyncio.ensure_future(play(engine, tick(0)))
    await asyncio.sleep(0)
    await engine.stop()
    with pytest.raises(EngineLost):
        await running
    assert engine.status().state is EngineState.STOPPED
    with pytest.raises(EngineLost):
        await engine.open_world(request("x"))


async def test_the_worker_process_shows_the_very_same_pattern() -> None:
    inside = await started()
    hosted = LocalEngine(PatternHost(capacity=2, chunk_seconds=0.0))
    await hosted.start()
    await hosted.open_world(request())
    for index in range(3):
        asked = tick(index, TURN)
        assert await play(hosted, asked) == await play(inside, asked)
    assert hosted.status().pages_in_use == inside.status().pages_in_use
    await hosted.stop()


@pytest.mark.parametrize(("width", "height"), [(16, 16), (16, 832), (832, 16), (48, 32)])
async def test_a_picture_too_small_for_its_marks_is_drawn_all_the_same(width: int, height: int) -> None:
    engine = await started(request(width=width, height=height))
    assert pictures(await play(engine, tick(0)))[0].shape == (height, width, 3)
