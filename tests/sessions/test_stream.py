"""Sessions that play into an outbox, chunk after chunk."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from session_fixtures import SPEC, STEPPED, ScriptedEngine, calm, keys, managed, until
from stream_stage import CHUNK_S, UNPACED, Viewer, stage
from test_manager import FullJournal
from test_session_faults import Failing

from engine.api import ChunkFailed
from sessions import facts
from sessions.errors import SessionFailed
from sessions.events import Acceptance
from sessions.limits import Limits
from sessions.outputs import (
    ChunkOutput,
    Done,
    Failed,
    InteractionQueued,
    InteractionRejected,
    ResetDone,
)
from sessions.state import SessionState

# Continuous


async def test_a_continuous_stream_is_one_chunk_ahead_of_its_viewer_and_no_more() -> None:
    play = await stage(SPEC)
    began = play.clock.now()
    await play.viewer.saw(2)
    await calm()
    assert len(play.engine.ticks) == 2  # the second at once: the viewer has less than a chunk to play
    assert play.clock.next_alarm == pytest.approx(began + 21 / 16 - CHUNK_S)
    await play.pass_time(6)
    starts = [chunk.media_time for chunk in play.viewer.chunks]
    assert starts == [0, *(9 / 16 + CHUNK_S * index for index in range(5))]
    assert play.clock.now() == pytest.approx(began + starts[5] - CHUNK_S)
    assert play.engine.slacks[2:] == pytest.approx([CHUNK_S] * 4)
    await play.session.close()


async def test_without_pacing_chunks_follow_one_another_at_once() -> None:
    play = await stage(replace(SPEC, pacing=UNPACED))
    await play.viewer.saw(10)
    assert play.clock.next_alarm is None
    assert play.engine.slacks[0] is None
    await play.session.stop()
    assert (await play.viewer.end()) == Done(len(play.viewer.chunks), stopped=True)


async def test_a_stream_of_a_length_ends_by_itself() -> None:
    play = await stage(replace(SPEC, pacing=UNPACED, num_frames=9 + 12 * 3))
    assert await play.viewer.end() == Done(4, stopped=False)
    assert sum(len(chunk.media.frames) for chunk in play.viewer.chunks) == 45
    assert play.session.info().state is SessionState.ACTIVE
    assert not play.session.info().streaming


async def test_an_interaction_takes_effect_at_the_next_boundary_and_is_named_by_its_chunk() -> None:
    play = await stage(SPEC)
    await play.viewer.saw(2)
    assert await play.session.interact("evt-a", "rain", (keys("w"),)) is Acceptance.ACCEPTED
    assert await play.session.interact(None, None, (keys("d"),)) is Acceptance.ACCEPTED
    await play.pass_time(4)
    assert play.viewer.others == [InteractionQueued("evt-a"), InteractionQueued("1")]
    third, fourth = play.viewer.chunks[2:4]
    assert third.started_event_ids == ("evt-a", "1")
    assert third.active_event_ids == ("evt-a", "1")
    assert third.tick.prompt == fourth.tick.prompt == "rain"
    assert (fourth.started_event_ids, fourth.active_event_ids) == ((), ("evt-a", "1"))
    await play.session.interact("evt-b", "snow")
    await play.pass_time(5)
    assert play.viewer.chunks[4].completed_event_ids == ("evt-a",)
    await play.session.close()


async def test_the_same_string_again_is_queued_again_without_effect_and_with_another_payload_a_conflict() -> (
    None
):
    play = await stage(SPEC)
    await play.viewer.saw(2)
    await play.session.interact("evt-a", "rain")
    assert await play.session.interact("evt-a", "rain") is Acceptance.DUPLICATE
    assert await play.session.interact("evt-a", "snow") is None
    await play.pass_time(3)
    assert await play.session.interact("evt-a", "rain") is Acceptance.DUPLICATE
    await play.pass_time(4)
    queued = InteractionQueued("evt-a")
    first, second, rejected, third = play.viewer.others
    assert first == second == third == queued
    assert isinstance(rejected, InteractionRejected)
    assert (rejected.event_id, rejected.code) == ("evt-a", "event_id_conflict")
    assert [chunk.tick.event_ids for chunk in play.viewer.chunks] == [(), (), (0,), ()]
    await play.session.close()


async def test_strings_that_left_memory_are_found_in_the_journal() -> None:
    play = await stage(replace(SPEC, pacing=UNPACED))
    for number in range(200):
        assert await play.session.interact(f"evt-{number}", f"prompt {number}") is Acceptance.ACCEPTED
        await calm(5)
    assert await play.session.interact("evt-0", "prompt 0") is Acceptance.DUPLICATE
    assert await play.session.interact("evt-0", "another") is None
    await play.session.close()


@pytest.mark.parametrize(
    ("prompt", "controls", "code", "field"),
    [
        (None, (), "invalid_event", "prompt"),
        (None, (keys("bad"),), "invalid_control", "controls[0].data.keys[0]"),
        ("\ud800", (), "invalid_event", "prompt"),
    ],
)
async def test_a_bad_interaction_is_rejected_and_the_stream_goes_on(
    prompt: str | None, controls: tuple[object, ...], code: str, field: str
) -> None:
    play = await stage(SPEC)
    await play.viewer.saw(2)
    assert await play.session.interact("evt-a", prompt, controls) is None
    await play.pass_time(3)
    (rejected,) = play.viewer.others
    assert isinstance(rejected, InteractionRejected)
    assert (rejected.event_id, rejected.code, rejected.field) == ("evt-a", code, field)
    await play.session.close()


async def test_a_full_queue_rejects_the_interaction_as_one_to_try_again() -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    play = await stage(SPEC, engine, limits=Limits(pending_events=2))
    await until(lambda: engine.ticks)
    for number in range(3):
        await play.session.interact(f"evt-{number}", "rain")
    await until(lambda: len(play.viewer.others) == 3)
    rejected = play.viewer.others[2]
    assert isinstance(rejected, InteractionRejected)
    assert (rejected.code, rejected.retryable) == ("queue_full", True)
    await play.session.close()


async def test_a_slow_reader_makes_generation_wait() -> None:
    engine = ScriptedEngine()
    manager = await managed(engine, limits=Limits(outbox_bytes=2000))
    session = await manager.create(replace(SPEC, pacing=UNPACED))
    outbox = session.play()
    await until(lambda: not outbox.has_room)
    await calm()
    made, waiting = len(engine.ticks), outbox.statistics().bytes
    await calm(200)
    assert len(engine.ticks) == made
    assert waiting < 2000 + 12 * 80  # the limit and one chunk more
    viewer = Viewer(outbox)
    await viewer.saw(made + 5)
    await session.close()
    assert await viewer.end() == Done(len(viewer.chunks), stopped=True)


async def test_a_client_that_only_writes_waits_with_its_interactions() -> None:
    manager = await managed(limits=Limits(outbox_messages=3, pending_events=100))
    session = await manager.create(SPEC)
    outbox = session.play()
    writes = [asyncio.create_task(session.interact(f"evt-{n}", "rain")) for n in range(10)]
    await calm(200)
    assert outbox.statistics().messages <= 3 + 10  # those that were let in at once
    late = asyncio.create_task(session.interact("late", "rain"))
    await calm(200)
    assert not late.done()
    viewer = Viewer(outbox)
    await late
    await asyncio.gather(*writes)
    await session.close()
    await viewer.end()


# Cancel, stop, close


async def test_a_cancelled_chunk_is_made_again_with_its_events_and_the_stream_goes_on() -> None:
    engine = ScriptedEngine()
    play = await stage(replace(SPEC, pacing=UNPACED), engine)
    await play.session.interact("evt-a", "rain")
    await play.viewer.saw(2)
    engine.gate.clear()
    seen = len(engine.ticks)
    await until(lambda: len(engine.ticks) > seen or play.session._protocol.flight)
    await play.session.interact("evt-b", "snow")
    flight = play.session._protocol.flight
    assert flight is not None
    cancelled = await play.session.cancel()
    engine.gate.set()
    await play.viewer.saw(len(play.viewer.chunks) + 3)
    await play.session.stop()
    await play.viewer.end()
    indexes = [chunk.tick.chunk_index for chunk in play.viewer.chunks]
    assert indexes == list(range(len(indexes)))
    assert cancelled
    started = [label for chunk in play.viewer.chunks for label in chunk.started_event_ids]
    assert started == ["evt-a", "evt-b"]


async def test_a_stop_rolls_back_the_chunk_in_flight_and_ends_the_stream_once() -> None:
    engine = ScriptedEngine()
    play = await stage(replace(SPEC, pacing=UNPACED), engine)
    await play.viewer.saw(2)
    engine.gate.clear()
    await until(lambda: len(engine.ticks) > len(play.viewer.chunks))
    await asyncio.gather(play.session.stop(), play.session.stop())
    await play.session.stop()
    terminal = await play.viewer.end()
    assert terminal == Done(len(play.viewer.chunks), stopped=True)
    assert play.session.info().chunk_index == len(play.viewer.chunks)
    assert play.session._protocol.flight is None


async def test_a_stop_after_the_pixels_left_waits_for_the_commit() -> None:
    engine = ScriptedEngine()
    engine.commits.clear()
    play = await stage(SPEC, engine)
    await play.viewer.saw(1)
    stop = asyncio.create_task(play.session.stop())
    await calm()
    assert not stop.done()
    engine.commits.set()
    await stop
    assert await play.viewer.end() == Done(1, stopped=True)
    assert play.session.info().chunk_index == 1


async def test_another_stream_goes_on_where_the_last_one_stopped() -> None:
    play = await stage(replace(SPEC, pacing=UNPACED))
    await play.viewer.saw(3)
    await play.session.stop()
    await play.viewer.end()
    made = len(play.viewer.chunks)
    second = Viewer(play.session.play())
    await second.saw(2)
    assert second.chunks[0].tick.chunk_index == made
    assert second.chunks[0].transport_index == made
    await play.session.close()
    await second.end()


async def test_a_close_ends_the_stream() -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    play = await stage(SPEC, engine)
    await until(lambda: engine.ticks)
    await play.session.close()
    assert await play.viewer.end() == Done(0, stopped=True)
    assert engine.worlds == {}


async def test_a_stream_whose_reader_is_gone_can_be_closed() -> None:
    engine = ScriptedEngine()
    play = await stage(replace(SPEC, pacing=UNPACED), engine)
    await play.viewer.saw(1)
    play.viewer.outbox.abandon()
    await until(lambda: not play.session.info().streaming)
    made = len(engine.ticks)
    await calm(100)
    assert len(engine.ticks) == made  # nothing is made for nobody
    await play.session.close("disconnected")
    assert engine.worlds == {}
    assert not play.session.info().streaming


# Faults


@pytest.mark.parametrize("stage_name", ["probe", "ready", "commit"])
async def test_an_engine_that_raises_ends_the_stream_with_one_error(stage_name: str) -> None:
    play = await stage(
        replace(SPEC, pacing=UNPACED), Failing(stage_name, ChunkFailed("out of memory"), chunk=2)
    )
    assert await play.viewer.end() == Failed("session_failed", "out of memory", False)
    assert len(play.viewer.chunks) == (3 if stage_name == "commit" else 2)
    assert play.session.info().state is SessionState.FAILED
    with pytest.raises(SessionFailed):
        play.session.play()
    await play.session.reset(resume=True)
    again = Viewer(play.session.play())
    await again.saw(5)
    await play.session.close()


async def test_a_journal_that_fails_between_chunks_ends_the_stream() -> None:
    journal = FullJournal(facts.ChunkCommitted)
    play = await stage(replace(SPEC, pacing=UNPACED), journal=journal)
    terminal = await play.viewer.end()
    assert isinstance(terminal, Failed)
    assert (terminal.code, terminal.retryable) == ("journal_unavailable", True)
    assert len(play.viewer.chunks) == 1


# Resets


async def test_after_a_reset_a_continuous_stream_waits_for_a_prompt() -> None:
    play = await stage(replace(SPEC, pacing=UNPACED))
    await play.viewer.saw(3)
    done = await play.session.reset()
    await calm()
    made = len(play.viewer.chunks)
    await play.session.interact("evt-a", None, (keys("w"),))
    await calm(200)
    assert len(play.viewer.chunks) == made
    assert play.session.info().waiting
    await play.session.interact("evt-b", "snow")
    await play.viewer.saw(made + 2)
    await play.session.close()
    await play.viewer.end()
    at = play.viewer.outputs.index(done)
    before, after = play.viewer.outputs[:at], play.viewer.outputs[at:]
    assert all(chunk.tick.epoch == 0 for chunk in before if isinstance(chunk, ChunkOutput))
    chunks = [chunk for chunk in after if isinstance(chunk, ChunkOutput)]
    assert [(chunk.tick.epoch, chunk.tick.chunk_index) for chunk in chunks[:2]] == [(1, 0), (1, 1)]
    assert chunks[0].started_event_ids == ("evt-a", "evt-b")
    assert (chunks[0].media_time, chunks[0].previous_commit_ms) == (0.0, None)
    assert chunks[0].transport_index == made


async def test_a_reset_that_resumes_plays_the_same_again() -> None:
    play = await stage(replace(SPEC, script=keys("w")))
    await play.pass_time(3)
    await play.session.interact("evt-a", "rain")
    done = await play.session.reset(resume=True)
    assert done == ResetDone(1, ("evt-a",))
    await play.pass_time(6)
    first, second = play.viewer.chunks[:3], play.viewer.chunks[3:6]
    assert [chunk.media for chunk in second] == [chunk.media for chunk in first]
    assert [chunk.tick.epoch for chunk in second] == [1, 1, 1]
    await play.session.close()


async def test_a_reset_paces_from_its_own_first_chunk() -> None:
    play = await stage(SPEC)
    await play.pass_time(4)
    await play.session.reset(resume=True)
    await play.viewer.saw(6)
    await calm()
    assert play.clock.next_alarm == pytest.approx(play.clock.now() + 21 / 16 - CHUNK_S)
    await play.session.close()


async def test_chunks_of_an_old_epoch_never_come_after_its_reset() -> None:
    engine = ScriptedEngine()
    play = await stage(replace(SPEC, pacing=UNPACED), engine)
    for round_ in range(1, 20):
        await calm(round_)
        await play.session.reset(resume=True)
    await play.session.stop()
    await play.viewer.end()
    epochs, epoch, index = [], 0, 0
    for output in play.viewer.outputs:
        if isinstance(output, ResetDone):
            epoch, index = output.epoch, 0
            epochs.append(epoch)
        elif isinstance(output, ChunkOutput):
            assert (output.tick.epoch, output.tick.chunk_index) == (epoch, index)
            index += 1
    assert epochs == list(range(1, 20))


# Both modes together


async def test_sessions_of_both_modes_side_by_side_play_as_they_would_alone() -> None:
    async def watch(viewer: Viewer, chunks: int) -> list[object]:
        await viewer.saw(chunks)
        return [chunk.media for chunk in viewer.chunks[:chunks]]

    specs = [replace(SPEC, seed=seed, pacing=UNPACED) for seed in range(4)]
    manager = await managed()
    sessions = [await manager.create(spec) for spec in specs]
    viewers = [Viewer(session.play()) for session in sessions]
    together = await asyncio.gather(*(watch(viewer, 10) for viewer in viewers))
    await manager.stop()
    for spec, media in zip(specs, together, strict=True):
        alone = await stage(spec)
        assert await watch(alone.viewer, 10) == media
        await alone.session.close()


async def test_nothing_is_left_running_when_all_is_closed() -> None:
    before = asyncio.all_tasks()
    manager = await managed()
    for number in range(20):
        session = await manager.create(replace(SPEC if number % 2 else STEPPED, pacing=UNPACED))
        viewer = Viewer(session.play())
        await calm(number)
        await session.close()
        await viewer.end()
    await manager.stop()
    await calm()
    assert asyncio.all_tasks() == before
