"""Clients that lose their connection and come back at once, alone or twice: one owner, and no chunk lost."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from killed_server import Served, Walker, served

from app.client import Chunk, ServerError


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
    """Both resume from the same place; the older one is told, and the newer one is given the next chunk."""
    assert walker.token is not None
    last = len(walker.seen) - 1
    async with server.client.socket() as one, server.client.socket() as other:
        await asyncio.gather(
            one.resume(session_id, walker.token, last),
            other.resume(session_id, walker.token, last),
            return_exceptions=True,
        )
        await asyncio.gather(*(stream.interact(event_id="both", prompt="fog") for stream in (one, other)))
        told = await asyncio.gather(*(until_chunk(stream, last + 1) for stream in (one, other)))
    gone = [answer for answer in told if isinstance(answer, ServerError)]
    assert [error.code for error in gone if error.code != "closed"] == ["taken_over"]
    assert len(gone) == 1


async def until_chunk(stream: object, index: int) -> Chunk | ServerError:
    try:
        while True:
            message = await stream.receive()  # type: ignore[attr-defined]
            if isinstance(message, Chunk) and message.metadata["transport_chunk_index"] == index:
                return message
    except ServerError as error:
        return error


async def race(data: Path, times: int, seed: int) -> None:
    dice = random.Random(seed)
    async with served(data, "pattern") as server:
        walker = Walker(server, "racing")
        await walker.walk(1)
        for _ in range(times):
            await cut_short(walker, dice)
        await walker.walk(len(walker.seen) + 2)
        alone = Walker(server, "alone")
        await alone.walk(len(walker.seen))
        assert walker.seen == alone.seen
        await two_at_once(server, walker, "racing")


async def test_a_few_reconnects_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await race(tmp_path, times=20, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_500_reconnects_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await race(tmp_path, times=500, seed=1)
