"""Sessions that play into an outbox, chunk after chunk."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, STEPPED, UNPACED, calm, keys, managed, until
from stream_stage import CHUNK_S, Viewer, stage

from sessions.events import Acceptance
from sessions.limits import Limits
from sessions.outputs import Done, InteractionQueued, InteractionRejected
from sessions.state import SessionState


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
