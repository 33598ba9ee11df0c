"""A session chunk by chunk, without a stream: events, transactions, cancelling."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from failing_journals import FullJournal
from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, STEPPED, calm, keys, managed, until
from session_steps import facts_of, frames, press, with_chunk_shown

from engine.api import ChunkCommitted, Control, Tick
from sessions import facts
from sessions.errors import (
    AlreadyPlaying,
    ChunkAborted,
    EventIdConflict,
    InvalidControl,
    JournalUnavailable,
    NotStepped,
    StaleEvent,
    WrongState,
)
from sessions.events import Acceptance, Event
from sessions.memory_journal import MemoryJournal
from sessions.observer import ChunkTimes, Observer
from sessions.session import Session
from sessions.sql_journal import SqlJournal
from sessions.state import SessionState


async def test_chunks_have_9_then_12_frames_and_go_on_in_media_time() -> None:
    session = await (await managed()).create(STEPPED)
    chunks = [await session.run_chunk() for _ in range(3)]
    assert [len(chunk.media.frames) for chunk in chunks] == [9, 12, 12]
    assert [chunk.media_time for chunk in chunks] == [0.0, 9 / 16, 21 / 16]
    assert [chunk.transport_index for chunk in chunks] == [0, 1, 2]
    assert [chunk.previous_commit_ms for chunk in chunks] == [None, 5.0, 5.0]
    assert all(chunk.keyframe for chunk in chunks)


async def test_one_chunk_takes_all_pending_events() -> None:
    session = await (await managed()).create(STEPPED)
    await session.submit(press(1, "w"))
    await session.submit(Event(2, "rain"))
    chunk = await session.run_chunk()
    assert chunk.tick.event_ids == (1, 2)
    assert chunk.started_event_ids == ("1", "2")
    assert chunk.tick.prompt == "rain"


async def test_an_event_is_durable_before_it_is_acknowledged_and_its_tick_before_its_pixels_leave() -> None:
    journal = MemoryJournal()
    session = await (await managed(journal=journal)).create(replace(STEPPED, session_id="s"))
    event = press(1, "w")
    assert await session.submit(event) is Acceptance.ACCEPTED
    chunk = await session.run_chunk()
    await session.close("client")
    opened, accepted, begun, committed, closed = await facts_of(journal, session)
    assert isinstance(opened, facts.SessionOpened)
    assert isinstance(accepted, facts.EventAccepted)
    assert accepted.event.event_id == 1
    assert begun == facts.ChunkBegun(chunk.tick, chunk.media.digest, 0)
    assert committed == facts.ChunkCommitted(0, 0, (1,), chunk.media.digest)
    assert closed == facts.SessionClosed("client")


async def test_an_applied_event_is_a_duplicate_and_its_id_stays_taken_across_resets() -> None:
    session = await (await managed()).create(STEPPED)
    await session.submit(press(5, "w"))
    await session.run_chunk()
    assert await session.submit(press(5, "w")) is Acceptance.DUPLICATE
    with pytest.raises(EventIdConflict):
        await session.submit(press(5, "d"))
    with pytest.raises(StaleEvent):
        await session.submit(press(4, "d"))
    await session.submit(press(6, "d"))
    await session.reset(resume=True)
    assert await session.submit(press(5, "w")) is Acceptance.DUPLICATE
    assert await session.submit(press(6, "d")) is Acceptance.DUPLICATE  # dropped by the reset, and told so
    with pytest.raises(EventIdConflict):
        await session.submit(press(6, "w"))
    assert (await session.run_chunk()).tick.event_ids == ()


async def test_two_submits_of_one_id_at_once_are_one_event() -> None:
    session = await (await managed()).create(STEPPED)
    both = await asyncio.gather(session.submit(press(1, "w")), session.submit(press(1, "w")))
    assert sorted(both) == [Acceptance.ACCEPTED, Acceptance.DUPLICATE]
    conflicting = asyncio.gather(
        session.submit(press(2, "w")), session.submit(press(2, "d")), return_exceptions=True
    )
    assert [type(outcome) for outcome in await conflicting] == [Acceptance, EventIdConflict]


async def test_whoever_stops_waiting_for_an_event_or_a_reset_does_not_leave_it_half_done(
    tmp_path: Path,
) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    manager = await managed(journal=journal)
    session = await manager.create(STEPPED)
    for event_id, turns in enumerate((0, 1, 2, 3)):
        submit = asyncio.create_task(session.submit(press(event_id, "w")))
        await calm(turns)
        submit.cancel()
        await asyncio.gather(submit, return_exceptions=True)
        if turns:  # else it had not begun
            await until(lambda wanted=event_id: wanted in session.info().pending_event_ids)
            assert await session.submit(press(event_id, "w")) is Acceptance.DUPLICATE
    reset = asyncio.create_task(session.reset(resume=True))
    await calm(2)
    reset.cancel()
    await asyncio.gather(reset, return_exceptions=True)
    await until(lambda: session.info().epoch == 1)
    assert (await session.run_chunk()).tick.event_ids == ()
    await manager.stop()


async def test_changes_to_a_submitted_payload_are_invisible() -> None:
    session = await (await managed()).create(STEPPED)
    control = keys("w")
    await session.submit(Event(1, None, (control,)))
    control.data["keys"].append("bad")
    assert (await session.run_chunk()).tick.controls == (Control("camera", "keys.v1", {"keys": ("w",)}),)


async def test_a_refused_event_harms_nothing() -> None:
    session = await (await managed()).create(STEPPED)
    with pytest.raises(InvalidControl):
        await session.submit(press(1, "bad"))
    assert (await session.run_chunk()).tick.event_ids == ()
    assert session.info().state is SessionState.ACTIVE


async def test_a_full_disk_fails_the_event_and_not_the_session() -> None:
    journal = FullJournal(facts.EventAccepted)
    session = await (await managed(journal=journal)).create(STEPPED)
    with pytest.raises(JournalUnavailable):
        await session.submit(press(1, "w"))
    assert (await session.run_chunk()).tick.event_ids == ()
    journal.full = False
    assert await session.submit(press(1, "w")) is Acceptance.ACCEPTED
    assert (await session.run_chunk()).tick.event_ids == (1,)


async def test_pixels_do_not_leave_without_their_tick_in_the_journal() -> None:
    journal = FullJournal(facts.ChunkBegun)
    session = await (await managed(journal=journal)).create(STEPPED)
    with pytest.raises(JournalUnavailable):
        await session.run_chunk()
    assert session.audience.tape.last is None
    journal.full = False
    chunk = await session.run_chunk()
    assert (chunk.tick.epoch, chunk.transport_index) == (0, 0)


async def test_only_stepped_sessions_are_asked_for_chunks() -> None:
    session = await (await managed()).create(SPEC)
    with pytest.raises(NotStepped):
        await session.run_chunk()


async def test_a_session_with_a_stream_is_not_asked_for_chunks() -> None:
    session = await (await managed()).create(STEPPED)
    session.play()
    with pytest.raises(AlreadyPlaying):
        await session.run_chunk()
    with pytest.raises(AlreadyPlaying):
        session.play()
    await session.close()


async def test_chunks_that_are_asked_for_at_once_take_turns() -> None:
    session = await (await managed()).create(STEPPED)
    chunks = await asyncio.gather(*(session.run_chunk() for _ in range(3)))
    assert [chunk.tick.chunk_index for chunk in chunks] == [0, 1, 2]


async def test_no_more_frames_are_made_than_were_asked_for() -> None:
    session = await (await managed()).create(replace(STEPPED, num_frames=21))
    await frames(session, 2)
    with pytest.raises(WrongState, match="all 21 frames"):
        await session.run_chunk()
    await session.reset(resume=True)
    await frames(session, 2)


# Cancelling


async def test_cancelling_rolls_the_chunk_back_and_leaves_the_session_as_it_was() -> None:
    engine = ScriptedEngine()
    session = await (await managed(engine)).create(STEPPED)
    alone = await (await managed()).create(STEPPED)
    await session.run_chunk()
    await session.submit(press(1, "w"))
    engine.gate.clear()
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: len(engine.ticks) == 2)
    assert await session.cancel()
    with pytest.raises(ChunkAborted, match="cancelled"):
        await chunk
    assert session.info().pending_event_ids == (1,)
    assert session.info().chunk_index == 1
    engine.gate.set()
    again = await session.run_chunk()
    await alone.run_chunk()
    await alone.submit(press(1, "w"))
    assert again.media == (await alone.run_chunk()).media


async def test_cancelling_nothing_does_nothing() -> None:
    session = await (await managed()).create(STEPPED)
    assert not await session.cancel()
    await session.run_chunk()
    assert not await session.cancel()


async def test_once_its_pixels_have_left_a_cancel_waits_for_the_commit() -> None:
    engine = ScriptedEngine()
    session, chunk = await with_chunk_shown(engine)
    cancel = asyncio.create_task(session.cancel())
    await calm()
    assert not cancel.done()
    engine.commits.set()
    assert not await cancel
    assert (await chunk).tick.chunk_index == 0
    assert session.info().chunk_index == 1


async def test_a_caller_that_goes_away_cancels_its_chunk() -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    session = await (await managed(engine)).create(STEPPED)
    chunk = asyncio.create_task(session.run_chunk())
    await until(lambda: engine.ticks)
    chunk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chunk
    await until(lambda: session._protocol.flight is None)
    engine.gate.set()
    assert (await session.run_chunk()).tick.chunk_index == 0


# Together


async def test_interleaved_sessions_make_the_same_frames_as_alone() -> None:
    async def walk(session: Session, name: str) -> list[bytes]:
        made = []
        for step in range(5):
            await session.submit(Event(step, f"{name} {step}", (keys("wasd"[step % 4]),)))
            made += await frames(session, 1)
        return made

    manager = await managed()
    specs = [replace(STEPPED, seed=seed) for seed in range(4)]
    together = await asyncio.gather(
        *[walk(await manager.create(spec), f"walk {spec.seed}") for spec in specs]
    )
    for spec, made in zip(specs, together, strict=True):
        assert await walk(await (await managed()).create(spec), f"walk {spec.seed}") == made
    assert len({frame for made in together for frame in made}) == 4 * (9 + 4 * 12)


async def test_an_observer_hears_stage_times_first_chunk_and_control_to_frame() -> None:
    heard: dict[str, list[object]] = {"chunk": [], "first": [], "control": [], "event": [], "aborted": []}

    class Listening(Observer):
        def chunk_committed(self, times: ChunkTimes) -> None:
            heard["chunk"].append(times)

        def chunk_aborted(self, code: str) -> None:
            heard["aborted"].append(code)

        def first_chunk(self, seconds: float) -> None:
            heard["first"].append(seconds)

        def control_to_frame(self, seconds: float) -> None:
            heard["control"].append(seconds)

        def event_taken(self, outcome: str) -> None:
            heard["event"].append(outcome)

    class Slow(ScriptedEngine):
        async def probe(self, tick: Tick) -> None:
            clock.advance(0.010)

        async def commit(self, tick: Tick) -> ChunkCommitted:
            clock.advance(0.006)
            return ChunkCommitted(tick, 5.0)

    clock = ManualClock()
    session = await (await managed(Slow(), clock=clock, observer=Listening())).create(STEPPED)
    await session.submit(press(1, "w"))
    clock.advance(0.5)
    await session.run_chunk()
    await session.run_chunk()
    with pytest.raises(InvalidControl):
        await session.submit(press(9, "bad"))
    await session.submit(press(1, "w"))
    first, _ = heard["chunk"]
    assert first.total_ms == pytest.approx(16.0)
    assert first.overhead_ms == pytest.approx(16.0 - (1 + 2 + 3) - 5)  # the encoder's 4 are beside
    assert session.info().last_chunk == heard["chunk"][1]
    assert heard["first"] == [pytest.approx(0.010)]
    assert heard["control"] == [pytest.approx(0.510)]
    assert heard["event"] == ["accepted", "invalid_control", "duplicate"]
    assert heard["aborted"] == []
