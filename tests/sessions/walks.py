"""Walks that tests take through scripted worlds, and what an undisturbed one shows."""

from __future__ import annotations

import asyncio
from typing import Any

from session_fixtures import S, calm, managed, until
from session_steps import press

from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput
from sessions.session import Session


async def walk(session: Session, first: int, last: int) -> list[str]:
    """Chunks first..last-1, each with an event of its own; their digests."""
    digests = []
    for number in range(first, last):
        await session.submit(press(number, "wasd"[number % 4]))
        digests.append((await session.run_chunk()).media.digest)
    return digests


async def undisturbed(chunks: int) -> list[str]:
    return await walk(await (await managed()).create(S), 0, chunks)


async def drain(outbox: Outbox) -> list[Any]:
    """What waits now."""
    outputs: list[Any] = []

    async def read() -> None:
        async for output in outbox:
            outputs.append(output)

    reader = asyncio.create_task(read())
    await calm()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    return outputs


def chunks_of(outputs: list[Any]) -> list[ChunkOutput]:
    return [output for output in outputs if isinstance(output, ChunkOutput)]


async def played(manager: SessionManager, chunks: int) -> tuple[Session, Outbox]:
    session = await manager.create(S)
    outbox = session.play()
    for number in range(chunks):
        await session.interact(f"evt-{number}", "rain")
        await until(lambda: session.info().chunk_index > number)  # noqa: B023
    await until(lambda: session.info().chunk_index == chunks)
    return session, outbox


async def managed_with_one(journal: MemoryJournal) -> None:
    """A server that is gone."""
    await (await managed(journal=journal)).create(S)
