"""A worker that dies costs its sessions time and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from manual_clock import ManualClock
from memory_stores import MemorySnapshots
from scripted_engine import Mortal, ScriptedEngine
from session_fixtures import SPEC, UNPACED, S, calm, managed, until
from session_steps import press, until_shown
from walks import chunks_of, drain, undisturbed, walk

from engine.api import Tick
from sessions import facts
from sessions.errors import EngineUnavailable, SessionFailed
from sessions.events import Acceptance
from sessions.limits import Limits
from sessions.memory_journal import MemoryJournal
from sessions.outputs import Done, Failed
from sessions.state import SessionState


async def test_a_chunk_whose_worker_dies_is_run_again_on_another_one() -> None:
    engine, clock, snapshots = Mortal(), ManualClock(), MemorySnapshots()
    manager = await managed(engine, clock=clock, snapshots=snapshots, limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    digests = await walk(session, 0, 5)
    engine.gate.clear()
    await session.submit(press(5, "a"))
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: len(engine.ticks) == 6)
    engine.die()
    engine.gate.set()
    await until(lambda: clock.next_alarm is not None)
    engine.come_back()
    clock.advance(1.0)
    digests.append((await chunk).media.digest)
    digests += await walk(session, 6, 8)
    assert digests == await undisturbed(8)
    assert [tick.chunk_index for tick in engine.ticks[6:8]] == [4, 5]  # one since the snapshot, and itself
    assert "restore" in engine.log


async def test_a_chunk_that_was_shown_is_not_shown_again_but_committed() -> None:
    engine, journal = Mortal(), MemoryJournal()
    manager = await managed(engine, journal=journal)
    session = await manager.create(replace(SPEC, session_id="s", pacing=UNPACED, num_frames=9 + 12 * 3))
    engine.commits.clear()
    outbox = session.play()
    await until_shown(session)
    engine.die()
    engine.come_back()
    engine.commits.set()
    outputs = [output async for output in outbox]
    assert [chunk.transport_index for chunk in chunks_of(outputs)] == [0, 1, 2, 3]
    assert outputs[-1] == Done(4, stopped=False)
    assert [chunk.transport_index for chunk in session.audience.tape.since(-1)] == [0, 1, 2, 3]
    begun = [r.fact for r in await journal.read(session.info().world) if isinstance(r.fact, facts.ChunkBegun)]
    assert len(begun) == 4


async def test_an_event_is_taken_while_the_engine_is_away() -> None:
    engine, clock = Mortal(), ManualClock()
    manager = await managed(engine, clock=clock)
    session = await manager.create(S)
    await session.run_chunk()
    engine.die()
    assert await session.submit(press(1, "w")) is Acceptance.ACCEPTED
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: clock.next_alarm is not None)
    engine.come_back()
    clock.advance(1.0)
    assert (await chunk).started_event_ids == ("1",)


async def test_a_world_that_is_lost_again_and_again_fails_its_session_with_the_reason() -> None:
    class Poisoned(Mortal):
        async def probe(self, tick: Tick) -> None:
            if "w" in tick.conditioning["camera"]["keys"]:
                self.die()
                self.come_back()
            await super().probe(tick)

    manager = await managed(Poisoned(), limits=Limits(revivals=2))
    session = await manager.create(S)
    await session.run_chunk()
    await session.submit(press(1, "w"))
    with pytest.raises(SessionFailed, match="lost 3 times in a row: no world"):
        await session.run_chunk()
    assert session.info().state is SessionState.FAILED
    await session.reset(resume=True)
    await session.run_chunk()


async def test_losses_with_chunks_between_them_are_no_reason_to_give_up() -> None:
    engine = Mortal()
    manager = await managed(engine, limits=Limits(revivals=1))
    session = await manager.create(S)
    digests: list[str] = []
    for number in range(4):
        digests += await walk(session, number, number + 1)
        engine.die()
        engine.come_back()
    assert digests == await undisturbed(4)


async def test_a_stream_commits_what_was_shown_before_its_engine_stayed_away() -> None:
    engine, clock = Mortal(), ManualClock()
    manager = await managed(engine, clock=clock, limits=Limits(revive_s=0.0))
    session = await manager.create(S)
    engine.commits.clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until_shown(session)
    engine.die()
    engine.commits.set()
    with pytest.raises(EngineUnavailable):
        await chunk
    assert await session.cancel() is False
    engine.come_back()
    outbox = session.play()
    await session.interact("evt-a", "rain")
    await until(lambda: session.info().chunk_index == 2)
    assert [chunk.transport_index for chunk in chunks_of(await drain(outbox))] == [1]
    await manager.stop()


async def test_an_engine_that_stays_away_ends_the_stream_and_not_the_session() -> None:
    engine, clock = Mortal(), ManualClock()
    manager = await managed(engine, clock=clock, limits=Limits(revive_s=1.0))
    session = await manager.create(replace(S, session_id="s"))
    outbox = session.play()
    await session.interact("evt-0", "hail")
    await until(lambda: outbox.statistics().chunks == 1 and session.info().chunk_index == 1)
    engine.die()
    await session.interact("evt-a", "rain")
    for _ in range(40):
        await calm(5)
        if clock.next_alarm is not None:
            clock.advance(0.05)
    outputs = [output async for output in outbox]
    assert isinstance(outputs[-1], Failed)
    assert (outputs[-1].code, outputs[-1].retryable) == ("engine_unavailable", True)
    assert session.info().state is SessionState.SUSPENDED
    engine.come_back()
    assert (await session.run_chunk()).started_event_ids == ("evt-a",)


async def test_a_stopped_engine_is_not_waited_for() -> None:
    engine = ScriptedEngine()
    manager = await managed(engine)
    session = await manager.create(S)
    await engine.stop()
    with pytest.raises(EngineUnavailable):
        await session.run_chunk()


async def test_a_reset_needs_no_engine() -> None:
    engine = Mortal()
    manager = await managed(engine)
    session = await manager.create(replace(S, scene=None, image=b"PNG"))
    first = (await session.run_chunk()).media.digest
    engine.die()
    await session.reset(resume=True)
    engine.come_back()
    assert (await session.run_chunk()).media.digest == first
    assert engine.worlds[session.info().world].request.image == b"PNG"  # read back from the journal
