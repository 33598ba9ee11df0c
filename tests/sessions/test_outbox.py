from __future__ import annotations

import asyncio

import pytest
from scripted_engine import ScriptedWorld, picture
from session_fixtures import calm

from engine.api import OpenWorld, StageTimes, Tick
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Done, Failed, InteractionQueued, Output


def chunk(index: int) -> ChunkOutput:
    tick = Tick("s", "w", 0, "r", index, (), "a meadow")
    media = picture(ScriptedWorld(OpenWorld("w", "a meadow", 96, 64, 16, 7, scene="meadow")), tick)
    return ChunkOutput(tick, media, StageTimes(0, 0, 0, 0), None, (), (), (), index, 0.0)


def outbox(limit_bytes: int = 1000, limit_messages: int = 2) -> Outbox:
    return Outbox(limit_bytes, limit_messages, lambda: None)


async def everything(box: Outbox) -> list[Output]:
    return [output async for output in box]


async def test_outputs_come_in_order_and_end_with_the_terminal_message() -> None:
    box = outbox()
    outputs = [InteractionQueued("a"), chunk(0), InteractionQueued("b"), Done(1, stopped=True)]
    for output in outputs:
        assert box.put(output)
    assert await everything(box) == outputs


@pytest.mark.parametrize("second", [Done(1, stopped=True), Failed("x", "y", False), chunk(1)])
async def test_nothing_comes_after_the_terminal_message(second: Output) -> None:
    box = outbox()
    box.put(Failed("session_failed", "lost", False))
    assert not box.put(second)
    assert await everything(box) == [Failed("session_failed", "lost", False)]


async def test_a_reader_waits_for_what_comes() -> None:
    box = outbox()
    reader = asyncio.create_task(everything(box))
    await calm()
    box.put(chunk(0))
    await calm()
    box.put(Done(1, stopped=False))
    assert len(await reader) == 2


async def test_chunks_beyond_the_limit_leave_no_room_until_they_are_read() -> None:
    reads: list[int] = []
    size = chunk(0).size
    box = Outbox(2 * size, 2, lambda: reads.append(1))
    box.put(chunk(0))
    assert box.has_room
    box.put(chunk(1))
    assert not box.has_room
    reader = aiter(box)
    await anext(reader)
    assert box.has_room
    assert reads == [1]
    assert (box.statistics().chunks, box.statistics().most_bytes) == (1, size + chunk(1).size)


async def test_messages_wait_for_room_apart_from_chunks() -> None:
    box = outbox(limit_bytes=1, limit_messages=2)
    box.put(chunk(0))
    await box.room_for_message()
    box.put(InteractionQueued("a"))
    box.put(InteractionQueued("b"))
    waiting = asyncio.create_task(box.room_for_message())
    await calm()
    assert not waiting.done()
    reader = aiter(box)
    await anext(reader)
    await calm()
    assert not waiting.done()
    await anext(reader)
    await waiting


async def test_an_abandoned_outbox_keeps_nothing_and_lets_everybody_go() -> None:
    box = outbox(limit_bytes=1, limit_messages=1)
    box.put(chunk(0))
    box.put(InteractionQueued("a"))
    waiting = asyncio.create_task(box.room_for_message())
    await calm()
    box.abandon()
    box.abandon()
    await waiting
    assert box.has_room
    assert not box.put(chunk(1))
    assert await everything(box) == []
    assert box.statistics().bytes == 0
