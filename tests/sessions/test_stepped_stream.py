"""Streams that make a chunk for each event, and for each that their script has."""

from __future__ import annotations

from dataclasses import replace

from scripted_engine import ScriptedEngine
from session_fixtures import STEPPED, calm, keys, managed, until
from stream_stage import Stage, Viewer, stage

from sessions.events import Event
from sessions.outputs import Done
from sessions.spec import SessionSpec


async def test_a_stepped_stream_has_one_chunk_per_event_and_none_before() -> None:
    play = await stage(STEPPED)
    await calm(200)
    assert play.viewer.chunks == []
    for number in range(3):
        await play.session.interact(f"evt-{number}", None, (keys("w"),))
        await play.viewer.saw(number + 1)
        await calm()
        assert len(play.viewer.chunks) == number + 1
    await play.session.submit(Event(50, "rain"))
    await play.viewer.saw(4)
    started = [chunk.started_event_ids for chunk in play.viewer.chunks]
    assert started == [("evt-0",), ("evt-1",), ("evt-2",), ("50",)]
    await play.session.stop()
    assert await play.viewer.end() == Done(4, stopped=True)


async def test_interactions_that_come_faster_than_chunks_each_get_their_own() -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    play = await stage(STEPPED, engine)
    for number in range(4):
        await play.session.interact(f"evt-{number}", f"prompt {number}")
    await until(lambda: engine.ticks)
    engine.gate.set()
    await play.viewer.saw(4)
    await calm()
    started = [chunk.started_event_ids for chunk in play.viewer.chunks]
    assert started == [("evt-0",), ("evt-1",), ("evt-2",), ("evt-3",)]
    await play.session.close()


async def test_a_repeated_interaction_makes_no_other_chunk() -> None:
    play = await stage(STEPPED)
    await play.session.interact("evt-a", "rain")
    await play.viewer.saw(1)
    await play.session.interact("evt-a", "rain")
    await calm(200)
    assert len(play.viewer.chunks) == 1
    await play.session.close()


async def test_a_cancelled_step_is_not_owed_any_more_and_its_event_joins_the_next() -> None:
    engine = ScriptedEngine()
    play = await stage(STEPPED, engine)
    engine.gate.clear()
    await play.session.interact("evt-a", "rain")
    await until(lambda: len(engine.ticks) == 1)
    assert await play.session.cancel()
    engine.gate.set()
    await calm(200)
    assert play.viewer.chunks == []
    await play.session.interact("evt-b", None, (keys("w"),))
    await play.viewer.saw(1)
    assert play.viewer.chunks[0].started_event_ids == ("evt-a", "evt-b")
    await play.session.close()


async def test_events_from_before_the_stream_each_get_their_chunk() -> None:
    manager = await managed()
    session = await manager.create(STEPPED)
    await session.submit(Event(1, "rain"))
    await session.submit(Event(2, None, (keys("w"),)))
    viewer = Viewer(session.play())
    await viewer.saw(2)
    await calm(100)
    assert [chunk.started_event_ids for chunk in viewer.chunks] == [("1",), ("2",)]
    await session.close()


async def test_a_stepped_stream_owes_nothing_after_a_reset_but_to_a_prompt() -> None:
    play = await stage(STEPPED)
    await play.session.interact("evt-0", "hail")
    await play.viewer.saw(1)
    await play.session.reset()
    await play.session.interact("evt-a", None, (keys("w"),))
    await calm(200)
    assert len(play.viewer.chunks) == 1
    await play.session.interact("evt-b", "snow")
    await play.viewer.saw(2)
    await calm(100)
    assert [chunk.started_event_ids for chunk in play.viewer.chunks] == [("evt-0",), ("evt-a", "evt-b")]
    await play.session.reset(resume=True)
    await calm(200)
    assert len(play.viewer.chunks) == 2
    await play.session.interact("evt-c", None, (keys("w"),))
    await play.viewer.saw(3)
    assert play.viewer.chunks[2].tick.prompt == "a meadow"
    await play.session.close()


def scripted(chunks: int) -> SessionSpec:
    """Stepped, with a script that has so many chunks."""
    return replace(STEPPED, script=keys("script", *["w"] * chunks))


async def held_at_its_first_step(spec: SessionSpec) -> Stage:
    """Until `engine.gate` lets it go."""
    engine = ScriptedEngine()
    engine.gate.clear()
    play = await stage(spec, engine)
    await until(lambda: engine.ticks)
    return play


async def test_a_stepped_stream_plays_its_script_and_then_one_chunk_per_event() -> None:
    play = await stage(scripted(3))
    await play.viewer.saw(3)
    await calm(200)
    assert len(play.viewer.chunks) == 3
    await play.session.interact("evt-a", "rain")
    await play.viewer.saw(4)
    await calm(200)
    assert [chunk.started_event_ids for chunk in play.viewer.chunks] == [(), (), (), ("evt-a",)]
    await play.session.reset(resume=True)
    await play.viewer.saw(7)
    await calm(200)
    assert [chunk.tick.chunk_index for chunk in play.viewer.chunks[4:]] == [0, 1, 2]
    await play.session.close()


async def test_a_scripted_step_that_is_cancelled_or_rewound_waits_for_an_event() -> None:
    play = await held_at_its_first_step(scripted(2))
    assert await play.session.cancel()
    play.engine.gate.set()
    await calm(200)
    assert play.viewer.chunks == []
    await play.session.interact("evt-a", "rain")
    await play.viewer.saw(2)  # the event's chunk is the script's first
    await calm(200)
    assert [chunk.started_event_ids for chunk in play.viewer.chunks] == [("evt-a",), ()]
    await play.session.rewind(0)
    await calm(200)
    assert len(play.viewer.chunks) == 2
    await play.session.close()


async def test_a_camera_of_the_viewers_own_ends_a_stepped_script() -> None:
    play = await held_at_its_first_step(scripted(5))
    await play.session.interact("evt-a", None, (keys("d"),))
    play.engine.gate.set()
    await play.viewer.saw(2)
    await calm(200)
    assert [chunk.started_event_ids for chunk in play.viewer.chunks] == [(), ("evt-a",)]
    await play.session.close()
