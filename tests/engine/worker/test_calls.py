"""Answers find those who asked, without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from scripted_host import tick

from engine.api import ChunkCommitted, ChunkReady, EncodedChunk, EngineLost, StageTimes, Tick
from engine.worker.calls import Calls
from engine.worker.messages import Committed, Ready, Request

MEDIA = EncodedChunk("h264", "avc1.42c00a", 32, 16, 16, 0, (b"\0\0\1a",), "digest")
TIMES = StageTimes(1.0, 2.0, 3.0, 4.0)


def connected() -> tuple[Calls, list[Request]]:
    sent: list[Request] = []
    calls = Calls(sent.append)
    calls.connect()
    return calls, sent


async def begun(
    calls: Calls, asked: Tick
) -> tuple[AsyncIterator[ChunkReady | ChunkCommitted], asyncio.Future[ChunkReady | ChunkCommitted]]:
    """A chunk's answers, and whoever waits for the first of them."""
    answers = calls.run(asked, None)
    first = asyncio.ensure_future(anext(answers))
    await asyncio.sleep(0)
    return answers, first


async def test_answers_that_come_before_their_reader_are_read_in_order() -> None:
    calls, sent = connected()
    asked = tick("w", 0)
    answers, first = await begun(calls, asked)
    [run] = sent
    calls.deliver(Ready(run.call, asked.request_id, MEDIA, TIMES))
    calls.deliver(Committed(run.call, asked.request_id, 5.0))
    assert await first == ChunkReady(asked, MEDIA, TIMES)
    assert [answer async for answer in answers] == [ChunkCommitted(asked, 5.0)]
    assert sent == [run]


@pytest.mark.parametrize("kind", ["ready", "committed"])
async def test_an_answer_to_another_tick_does_not_pass_for_one_to_this(kind: str) -> None:
    calls, sent = connected()
    asked = tick("w", 0)
    answers, first = await begun(calls, asked)
    [run] = sent
    other = "another execution"
    calls.deliver(
        Ready(run.call, other, MEDIA, TIMES) if kind == "ready" else Committed(run.call, other, 5.0)
    )
    answer = await first
    assert answer.tick == replace(asked, request_id=other) != asked
    await answers.aclose()


async def test_whoever_waits_hears_that_the_worker_is_lost() -> None:
    calls, _ = connected()
    _, first = await begun(calls, tick("w", 0))
    calls.lose("the worker was killed")
    with pytest.raises(EngineLost, match="the worker was killed"):
        await first
