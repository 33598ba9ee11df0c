"""What a world's chunks are promised, whatever its neighbours, its client or its model do."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from loop_steps import engine, names, play, reached, walk
from numpy.typing import NDArray
from scripted_host import Record, request, tick

from engine.api import ChunkCommitted, ChunkFailed, ChunkReady, EncodedChunk
from engine.media.chunk import encode_chunk


async def test_a_chunk_is_probed_decoded_written_handed_on_and_then_committed() -> None:
    record = Record()
    async with engine(record, "w") as local:
        media = await play(local, "w", 0)
    assert names(record, "w") == ["open", "begin"] + ["probe"] * 4 + ["decode", "write", "commit", "close"]
    assert len(media.frames) == 9 and media.first_frame == 0


async def test_pixels_leave_before_the_commit_runs() -> None:
    record = Record()
    _, go = record.hold("commit", "w")
    async with engine(record, "w") as local:
        answers = local.run_chunk(tick("w", 0))
        assert isinstance(await anext(answers), ChunkReady)
        go.set()  # only now can the commit have ended
        assert isinstance(await anext(answers), ChunkCommitted)


async def test_pixels_wait_for_no_commit_pass() -> None:
    record = Record()
    _, go = record.hold("write", "w")
    async with engine(record, "w") as local:
        answers = local.run_chunk(tick("w", 0))
        assert isinstance(await anext(answers), ChunkReady)
        assert "commit" not in names(record, "w")
        go.set()
        assert isinstance(await anext(answers), ChunkCommitted)


async def test_the_commit_pass_waits_for_no_encoder() -> None:
    record = Record()
    written, go = record.hold("write", "w")
    go.set()

    def encode(frames: NDArray[np.uint8], kind: object, fps: int, first_frame: int) -> EncodedChunk:
        assert written.wait(30)
        return encode_chunk(frames, "h264", fps, first_frame)

    async with engine(record, "w", encode=encode) as local:
        await play(local, "w", 0)


async def test_the_pixels_of_a_chunk_that_can_t_be_written_are_kept_back() -> None:
    record = Record()
    record.fail("write", "w", ValueError("a bad number"))
    next_turn, go = record.hold("begin", "b")
    go.set()

    def encode(frames: NDArray[np.uint8], kind: object, fps: int, first_frame: int) -> EncodedChunk:
        assert next_turn.wait(30)  # so the write has failed
        return encode_chunk(frames, "h264", fps, first_frame)

    async with engine(record, "w", "b", encode=encode) as local:
        other = asyncio.ensure_future(play(local, "b", 0, 1.0))
        with pytest.raises(ChunkFailed, match="commit of chunk 0 failed: ValueError: a bad number"):
            await anext(local.run_chunk(tick("w", 0)))
        await other


async def test_later_chunks_continue_media_time() -> None:
    async with engine(None, "w") as local:
        media = await walk(local, "w", 4)
    assert [(chunk.first_frame, len(chunk.frames)) for chunk in media] == [
        (0, 9),
        (9, 12),
        (21, 12),
        (33, 12),
    ]


async def test_one_world_computes_while_the_frames_of_another_are_encoded() -> None:
    encoding, go = threading.Event(), threading.Event()

    def slow(frames: NDArray[np.uint8], kind: object, fps: int, first_frame: int) -> EncodedChunk:
        if not encoding.is_set():
            encoding.set()
            assert go.wait(30)
        return encode_chunk(frames, "h264", fps, first_frame)

    record = Record()
    async with engine(record, "a", "b", encode=slow) as local:
        stage, decode = record.hold("decode", "b")
        decode.set()
        first = asyncio.ensure_future(play(local, "a", 0))
        await reached(encoding)
        second = asyncio.ensure_future(play(local, "b", 0))
        await reached(stage)  # b was computed although a has not been committed
        assert "commit" not in names(record, "a")
        go.set()
        await asyncio.gather(first, second)


@pytest.mark.parametrize("stage", ["begin", "probe", "decode", "write", "commit"])
async def test_a_raise_in_any_stage_rolls_back_and_the_worker_lives_on(stage: str) -> None:
    async with engine(None, "w") as local:
        undisturbed = await walk(local, "w", 3)
    record = Record()
    async with engine(record, "w", "other") as local:
        first = await play(local, "w", 0)
        record.fail(stage, "w", ValueError("a bad number"))
        with pytest.raises(ChunkFailed, match="chunk 1 failed: ValueError: a bad number"):
            await play(local, "w", 1)
        assert names(record, "w")[-1] == "rollback"
        await play(local, "other", 0)
        assert [first, await play(local, "w", 1), await play(local, "w", 2)] == undisturbed


async def test_a_codec_that_raises_rolls_the_chunk_back() -> None:
    broken = [True, False]

    def encode(frames: NDArray[np.uint8], kind: object, fps: int, first_frame: int) -> EncodedChunk:
        if broken.pop(0):
            raise MemoryError
        return encode_chunk(frames, "h264", fps, first_frame)

    record = Record()
    async with engine(record, "w", encode=encode) as local:
        with pytest.raises(ChunkFailed, match="encode of chunk 0 failed: MemoryError"):
            await play(local, "w", 0)
        assert names(record, "w")[-1] == "rollback"
        await play(local, "w", 0)


async def test_a_rollback_that_raises_is_told_too() -> None:
    record = Record()
    record.fail("probe", "w", ValueError("first"))
    record.fail("rollback", "w", ValueError("second"))
    async with engine(record, "w") as local:
        with pytest.raises(ChunkFailed, match="first; the rollback failed too: ValueError: second"):
            await play(local, "w", 0)
        await local.reset_world("w")
        await play(local, "w", 0)


async def test_a_chunk_out_of_order_is_refused() -> None:
    async with engine(None, "w") as local:
        with pytest.raises(ChunkFailed, match="chunk 1 was asked for; the next one is 0"):
            await play(local, "w", 1)
        await play(local, "w", 0)


async def test_interleaved_worlds_give_the_same_bytes_as_worlds_alone() -> None:
    alone = {}
    for seed, world in enumerate(("a", "b", "c")):
        async with engine() as local:
            await local.open_world(request(world, seed))
            alone[world] = await walk(local, world, 5)
    async with engine() as local:
        for seed, world in enumerate(alone):
            await local.open_world(request(world, seed))
        together = await asyncio.gather(*(walk(local, world, 5) for world in alone))
    assert together == list(alone.values())


async def test_worlds_that_wait_are_served_by_slack() -> None:
    record = Record()
    async with engine(record, "first", "relaxed", "urgent") as local:
        stage, go = record.hold("probe", "first")
        running = [asyncio.ensure_future(play(local, "first", 0))]
        await reached(stage)
        running += [
            asyncio.ensure_future(play(local, "relaxed", 0, 2.0)),
            asyncio.ensure_future(play(local, "urgent", 0, 0.1)),
        ]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*running)
    begun = [world for name, world, _ in record.events if name == "begin"]
    assert begun == ["first", "urgent", "relaxed"]


async def test_stage_times_are_measured() -> None:
    async with engine(None, "w") as local:
        async for answer in local.run_chunk(tick("w", 0)):
            if isinstance(answer, ChunkReady):
                assert answer.times.encode_ms > 0 and answer.times.queue_ms >= 0
            else:
                assert answer.commit_ms > 0
