"""Clients that lose their connection and come back at once, alone or twice: one owner, and no chunk lost."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from killed_server import Served, Walker, served

from app.client import Chunk, ServerError, Stream


async def cut_short(walker: Walker, dice: random.Random) -> None:
    """Play for a moment, leave or vanish, and stay away for up to 50 ms."""
    walking = asyncio.create_task(walker.walk(len(walker.seen) + 100))
    await asyncio.wait([walking], timeout=dice.random() * 0.05)
    if dice.random() < 0.5:
        walker.vanish()
    walking.cancel()
    await asyncio.gather(walking, return_exceptions=True)
    await asyncio.sleep(dice.random() * 0.05)


async def two_at_once(server: Served, walker: Walker, session_id: str) -> None:
    """Both resume from the same place and ask for the same chunk: one of them is told that it was taken over,
    and the other is given the chunk.

    Where it was missed before, the older one may have been given it too, before it was told.
    """
    assert walker.token is not None
    number, token = len(walker.seen), walker.token

    async def play(stream: Stream, together: asyncio.Barrier) -> Chunk | ServerError:
        error: ServerError | None = None
        try:
            await stream.resume(session_id, token, number - 1)
        except ServerError as refused:
            error = refused
        await together.wait()
        if error is None:
            try:
                await walker.ask(stream)
                return await stream.chunk()
            except ServerError as refused:
                error = refused
        return error

    async with server.client.socket() as one, server.client.socket() as other:
        together = asyncio.Barrier(2)
        told = await asyncio.gather(play(one, together), play(other, together))
        gone = [answer for answer in told if isinstance(answer, ServerError)] or [await first_end(one, other)]
    chunks = [answer for answer in told if isinstance(answer, Chunk)]
    assert [error.close_code for error in gone] == [4409], told
    assert {(chunk.metadata["transport_chunk_index"], chunk.data) for chunk in chunks} == {
        (number, chunks[0].data)
    }
    walker.seen[number] = chunks[0].data


async def first_end(*streams: Stream) -> ServerError:
    """How the first of these streams ends."""
    ends = [asyncio.create_task(end(stream)) for stream in streams]
    done, going = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
    return done.pop().result()


async def end(stream: Stream) -> ServerError:
    while True:
        try:
            await stream.receive()
        except ServerError as error:
            return error


async def race(data: Path, times: int, seed: int) -> None:
    """Of so many comings back, every fifth is one of two at once."""
    dice = random.Random(seed)
    async with served(data, "pattern") as server:
        walker = Walker(server, "racing")
        await walker.walk(1)
        for number in range(times):
            if number % 5 == 4:
                await two_at_once(server, walker, "racing")
            else:
                await cut_short(walker, dice)
        await walker.walk(len(walker.seen) + 2)
        alone = Walker(server, "alone")
        await alone.walk(len(walker.seen))
    assert walker.seen == alone.seen


async def test_a_few_reconnects_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await race(tmp_path, times=20, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_500_reconnects_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await race(tmp_path, times=500, seed=1)
