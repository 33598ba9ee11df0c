"""Rewinds and forks show what an undisturbed run shows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from memory_stores import MemorySnapshots
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, UNPACED, S, managed, until
from session_steps import press
from walks import chunks_of, undisturbed, walk

from sessions.errors import NoSuchChunk
from sessions.limits import Limits
from sessions.memory_journal import MemoryJournal
from sessions.outputs import ChunkOutput, Rewound


async def test_a_rewound_session_repeats_what_followed_and_may_take_another_way() -> None:
    engine, journal = ScriptedEngine(), MemoryJournal()
    manager = await managed(
        engine, journal=journal, snapshots=MemorySnapshots(), limits=Limits(snapshot_every=2)
    )
    session = await manager.create(S)
    digests = await walk(session, 0, 6)
    assert await session.rewind(3) == Rewound(1, 3)
    info = session.info()
    assert (info.epoch, info.chunk_index, info.event_floor) == (1, 3, 6)
    await session.submit(press(6, "d"))  # as event 3 was
    again = await session.run_chunk()
    assert again.media.digest == digests[3]
    assert again.transport_index == 6
    await session.submit(press(7, "d"))
    other = (await session.run_chunk()).media.digest
    assert other != digests[4]
    await session.suspend("disconnected")
    woken = await manager.awake("s")
    await woken.rewind(4)
    await woken.submit(press(8, "d"))
    assert (await woken.run_chunk()).media.digest == other
    with pytest.raises(NoSuchChunk, match="to_chunk is 6: 5 chunks"):
        await woken.rewind(6)
    await woken.rewind(0)
    await woken.submit(press(9, "w"))
    assert (await woken.run_chunk()).media.digest == digests[0]


async def test_a_stream_goes_on_behind_a_rewind() -> None:
    manager = await managed()
    session = await manager.create(replace(SPEC, session_id="s", pacing=UNPACED, num_frames=9 + 12 * 5))
    outbox = session.play()
    seen: list[Any] = []
    async for output in outbox:
        seen.append(output)
        if isinstance(output, ChunkOutput) and output.transport_index == 3:
            await session.rewind(1)
    assert seen[-1].stopped is False
    at = seen.index(Rewound(1, 1))
    assert [chunk.tick.chunk_index for chunk in chunks_of(seen[at:])] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("at", [None, 2])
async def test_a_fork_shares_the_past_and_nothing_else(at: int | None) -> None:
    engine, journal = ScriptedEngine(), MemoryJournal()
    manager = await managed(engine, journal=journal)
    session = await manager.create(S)
    digests = await walk(session, 0, 4)
    fork = await manager.fork("s", replace(S, session_id="fork", owner="key-2"), at)
    begin = 4 if at is None else at
    info = fork.info()
    assert (info.epoch, info.chunk_index, info.spec.owner) == (0, begin, "key-2")
    assert ("fork" in engine.log) is (at is None)
    same, theirs = await walk(fork, begin, 6), await walk(session, 4, 6)
    assert digests[:begin] + same == digests + theirs == await undisturbed(6)
    await fork.submit(press(6, "wasd"))
    await session.submit(press(6, "w"))
    assert (await fork.run_chunk()).media.digest != (await session.run_chunk()).media.digest
    await session.close()
    woken = await (await managed(journal=journal)).awake("fork")  # its journal leads to the other's
    assert woken.info().chunk_index == 7
    await woken.rewind(1)
    assert (await walk(woken, 7, 8))[0] != ""
    nested = await managed(journal=journal)
    grandchild = await nested.fork("fork", replace(S, session_id="fork-2"), 1)
    assert grandchild.info().chunk_index == 1
    assert await walk(grandchild, 1, 3) == digests[1:3]


@pytest.mark.parametrize("at", [None, 4, 3])
async def test_what_was_shown_before_a_kill_is_in_a_fork(at: int | None) -> None:
    journal, engine = MemoryJournal(), ScriptedEngine()
    session = await (await managed(engine, journal=journal)).create(S)
    await walk(session, 0, 3)
    await session.submit(press(3, "d"))
    engine.commits.clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: session.audience.tape.since(2))
    after = await managed(journal=journal)
    fork = await after.fork("s", replace(S, session_id="fork"), at)
    begin = 4 if at is None else at
    assert fork.info().chunk_index == begin
    assert await walk(fork, begin, 6) == (await undisturbed(6))[begin:]
    chunk.cancel()
    await asyncio.gather(chunk, return_exceptions=True)


async def test_a_fork_of_what_never_was_is_refused() -> None:
    manager = await managed()
    await walk(await manager.create(S), 0, 2)
    with pytest.raises(NoSuchChunk, match="at_chunk is 3: 2 chunks"):
        await manager.fork("s", replace(S, session_id="fork"), 3)
    assert [info.session_id for info in await manager.list()] == ["s"]
