"""Resets of sessions that play."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, UNPACED, calm, keys
from stream_stage import CHUNK_S, stage

from sessions.outputs import ChunkOutput, ResetDone


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
