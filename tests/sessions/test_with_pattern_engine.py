"""Sessions over a real in-process engine, the real camera reducer and a journal on disk."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from session_fixtures import calm

from engine.api import Control
from engine.camera.reducer import CameraReducer
from engine.pattern.engine import PatternEngine
from sessions.events import Event
from sessions.history import rebuild
from sessions.manager import SessionManager
from sessions.outputs import ChunkOutput, Done
from sessions.session import Session
from sessions.spec import Format, Mode, Pacing, SessionSpec
from sessions.sql_journal import SqlJournal


def press(event_id: int, *pressed: str) -> Event:
    data = {"mode": "state", "transitions": [{"actions": list(pressed)}]}
    return Event(event_id, None, (Control("camera", "lingbot.camera_actions.v1", data),))


async def started(path: Path, **options: float) -> tuple[SessionManager, SqlJournal, SessionSpec]:
    journal = SqlJournal(f"sqlite:///{path}/journal.db")
    manager = SessionManager(PatternEngine(**options), journal, {"camera": CameraReducer()})
    card = await manager.start()
    spec = SessionSpec(
        prompt="a meadow",
        width=card.width,
        height=card.height,
        fps=card.fps,
        seed=7,
        scene=card.scenes[0].name,
        mode=Mode.STEPPED,
        format=Format.JPEG,
    )
    return manager, journal, spec


async def walk(session: Session) -> list[str]:
    """The digests of a few chunks of walking; other sessions come between at every step."""
    digests = []
    for step, key in enumerate("wwld"):
        await session.submit(press(step, key))
        digests.append((await session.run_chunk()).media.digest)
    return digests


async def test_interleaved_sessions_show_what_they_show_alone(tmp_path: Path) -> None:
    manager, _, spec = await started(tmp_path)
    sessions = [await manager.create(replace(spec, seed=seed)) for seed in range(3)]
    together = await asyncio.gather(*map(walk, sessions))
    for seed, seen in enumerate(together):
        assert await walk(await manager.create(replace(spec, seed=seed))) == seen
    await manager.stop()


async def test_cancels_and_resets_leave_no_trace_in_the_frames(tmp_path: Path) -> None:
    manager, journal, spec = await started(tmp_path, chunk_seconds=0.02)
    alone = await walk(await manager.create(spec))
    session = await manager.create(spec)
    for step in range(3):
        await session.submit(press(100 + step, "a"))
        chunk = asyncio.create_task(session.run_chunk())
        await calm(5 * step)
        await session.cancel()
        await asyncio.gather(chunk, return_exceptions=True)
    await session.reset(resume=True)
    for step, key in enumerate("wwld"):
        await session.submit(press(200 + step, key))
        assert (await session.run_chunk()).media.digest == alone[step]
    records = await journal.read(session.info().world)
    rebuilt = rebuild([record.fact for record in records], {"camera": CameraReducer()}).protocol
    assert (rebuilt.epoch, rebuilt.chunk_index, rebuilt.next_event_id) == (1, 4, 204)
    await manager.stop()


@pytest.mark.parametrize("mode", list(Mode))
async def test_a_stream_of_each_mode_plays_to_its_end(tmp_path: Path, mode: Mode) -> None:
    manager, _, spec = await started(tmp_path)
    pacing = Pacing(to_media_time=False)
    session = await manager.create(replace(spec, mode=mode, format=Format.M4S, num_frames=33, pacing=pacing))
    outputs = []
    outbox = session.play()
    await session.interact("key", None, press(0, "w").controls)
    async for output in outbox:
        outputs.append(output)
        if isinstance(output, ChunkOutput):
            await session.interact(f"key-{len(outputs)}", None, press(0, "w").controls)
    chunks = [output for output in outputs if isinstance(output, ChunkOutput)]
    assert [len(chunk.media.frames) for chunk in chunks] == [9, 12, 12]
    assert outputs[-1] == Done(3, stopped=False)
    await manager.stop()
