"""What ends a stream, or a chunk of it: a cancel, a stop, a close, a fault."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from failing_journals import FullJournal
from scripted_engine import Failing, ScriptedEngine
from session_fixtures import SPEC, UNPACED, calm, until
from stream_stage import Viewer, stage

from engine.api import ChunkFailed
from sessions import facts
from sessions.errors import SessionFailed
from sessions.outputs import Done, Failed
from sessions.state import SessionState

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
