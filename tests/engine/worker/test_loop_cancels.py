"""What a cancelled chunk leaves behind, and when it can't be cancelled any more."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import numpy as np
import pytest
from loop_steps import engine, names, play, reached, walk
from numpy.typing import NDArray
from scripted_host import Record, tick

from engine.api import ChunkCancelled, ChunkCommitted, EncodedChunk
from engine.media.chunk import encode_chunk
from engine.worker.local import LocalEngine


async def cancelled_at(local: LocalEngine, record: Record, stage: str, index: int) -> None:
    """Run a chunk of the world `w` up to a stage, and cancel it there."""
    at_it, go = record.hold(stage, "w")
    running = asyncio.ensure_future(play(local, "w", index))
    await reached(at_it)
    await local.cancel_chunk("w")
    go.set()
    with pytest.raises(ChunkCancelled):
        await running


async def test_a_cancel_between_two_forwards_stops_there_and_rolls_back() -> None:
    record = Record()
    async with engine(record, "w") as local:
        await cancelled_at(local, record, "probe", 0)
        assert names(record, "w") == ["open", "begin", "probe", "rollback"]


async def test_a_cancelled_chunk_leaves_no_trace() -> None:
    async with engine(None, "w") as local:
        undisturbed = await walk(local, "w", 3)
    record = Record()
    async with engine(record, "w") as local:
        chunks = [await play(local, "w", 0)]
        await cancelled_at(local, record, "decode", 1)
        chunks += [await play(local, "w", 1), await play(local, "w", 2)]
    assert chunks == undisturbed


async def test_a_chunk_that_waits_is_cancelled_at_once() -> None:
    record = Record()
    async with engine(record, "a", "b") as local:
        stage, go = record.hold("probe", "a")
        first = asyncio.ensure_future(play(local, "a", 0))
        await reached(stage)
        waiting = local.run_chunk(tick("b", 0))
        second = asyncio.ensure_future(anext(waiting))
        await asyncio.sleep(0)
        await local.cancel_chunk("b")
        with pytest.raises(ChunkCancelled):
            await second
        go.set()
        await first
        assert names(record, "b") == ["open"]


async def test_a_cancel_after_the_pixels_left_does_nothing() -> None:
    record = Record()
    stage, go = record.hold("commit", "w")
    async with engine(record, "w") as local:
        answers = local.run_chunk(tick("w", 0))
        await anext(answers)
        await reached(stage)
        await local.cancel_chunk("w")
        go.set()
        assert isinstance(await anext(answers), ChunkCommitted)


async def test_a_cancel_while_the_frames_are_encoded_keeps_them_back() -> None:
    encoding, go = threading.Event(), threading.Event()

    def slow(frames: NDArray[np.uint8], kind: object, fps: int, first_frame: int) -> EncodedChunk:
        encoding.set()
        assert go.wait(30)
        return encode_chunk(frames, "h264", fps, first_frame)

    record = Record()
    async with engine(record, "w", encode=slow) as local:
        running = asyncio.ensure_future(play(local, "w", 0))
        await reached(encoding)
        await local.cancel_chunk("w")
        go.set()
        with pytest.raises(ChunkCancelled):
            await running
        assert names(record, "w")[-1] == "rollback"
        await play(local, "w", 0)


async def test_leaving_early_cancels_the_chunk() -> None:
    record = Record()
    async with engine(record, "w") as local:
        stage, go = record.hold("probe", "w")

        async def begin() -> None:
            async with aclosing(local.run_chunk(tick("w", 0))) as answers:  # type: ignore[type-var]
                await anext(answers)

        running = asyncio.ensure_future(begin())
        await reached(stage)
        running.cancel()
        await asyncio.wait([running])
        go.set()
        await play(local, "w", 0)
        assert names(record, "w").count("rollback") == 1
