"""`worldline sessions` and `worldline replay`: what the journal knows, and whether it comes out again."""

import asyncio
import io
import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import av
import pytest
from typer.testing import CliRunner, Result

from app.bootstrap import build_reducers, build_stores
from app.cli import cli
from app.settings import Settings
from engine.pattern.engine import PatternEngine
from sessions.events import Event
from sessions.manager import SessionManager
from sessions.spec import Mode, SessionSpec

SPEC = SessionSpec("a meadow", 96, 64, 16, 7, scene="plain", mode=Mode.STEPPED, session_id="walk")


async def play(data: Path, session_id: str = "walk") -> None:
    stores = build_stores(Settings(data=data))
    manager = SessionManager(PatternEngine(), stores.journal, build_reducers(), snapshots=stores.snapshots)
    await manager.start()
    session = await manager.create(replace(SPEC, session_id=session_id))
    for number in range(3):
        await session.submit(Event(number, f"place {number}"))
        await session.run_chunk()
    await manager.stop()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    asyncio.run(play(tmp_path / "data"))
    return tmp_path / "data"


def worldline(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_sessions_that_are_not_closed_are_listed_without_a_server(data: Path) -> None:
    listed = worldline("sessions", "--data", str(data))
    assert listed.exit_code == 0, listed.output
    assert "walk" in listed.stdout and "suspended" in listed.stdout


def test_a_session_that_can_not_be_read_hides_no_other(data: Path) -> None:
    asyncio.run(play(data, "other"))
    with sqlite3.connect(data / "journal.db") as database:
        database.execute(
            "UPDATE facts SET content = '{}' WHERE sequence = 2 AND world ="
            " (SELECT world FROM lives WHERE session_id = 'walk')"
        )
    database.close()
    listed = worldline("sessions", "--data", str(data))
    assert listed.exit_code == 2
    assert "other" in listed.stdout and "walk" not in listed.stdout
    assert "worldline sessions: session walk: " in listed.stderr


def test_a_session_comes_out_again_as_it_was_shown(data: Path, tmp_path: Path) -> None:
    video = tmp_path / "walk.mp4"
    arguments = ["replay", "walk", "--verify", "--engine", "pattern", "--data", str(data)]
    done = worldline(*arguments, "--output", str(video))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told == {"session": "walk", "chunks": 3, "differ": [], "same": True}
    with av.open(io.BytesIO(video.read_bytes())) as container:
        assert len(list(container.decode(video=0))) == 9 + 12 + 12


def test_a_video_that_can_not_be_written_is_refused_first(data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for output, told in (
        (tmp_path / "no" / "walk.mp4", "no such folder"),
        (tmp_path / "fifo", "regular file"),
    ):
        done = worldline(
            "replay", "nobody", "--engine", "pattern", "--data", str(data), "--output", str(output)
        )
        assert done.exit_code == 2
        assert f"worldline replay: {output}: can't be written: " in done.stderr and told in done.stderr


def test_a_replay_that_can_not_be_made_leaves_the_video_before(data: Path, tmp_path: Path) -> None:
    video = tmp_path / "walk.mp4"
    video.write_bytes(b"before")
    done = worldline("replay", "nobody", "--engine", "pattern", "--data", str(data), "--output", str(video))
    assert done.exit_code == 2
    assert video.read_bytes() == b"before"


def test_what_was_shown_otherwise_is_found(data: Path) -> None:
    with sqlite3.connect(data / "journal.db") as journal:
        [[content]] = journal.execute(
            "SELECT content FROM facts WHERE kind = 'begun' LIMIT 1 OFFSET 1"
        ).fetchall()
        known = json.loads(content)["frames_digest"]
        journal.execute("UPDATE facts SET content = replace(content, ?, ?)", (known, "0" * 64))
    journal.close()
    done = worldline("replay", "walk", "--verify", "--engine", "pattern", "--data", str(data))
    assert done.exit_code == 1
    assert json.loads(done.stdout)["differ"] == [1]


def test_an_unknown_session_is_named(tmp_path: Path) -> None:
    done = worldline("replay", "nobody", "--engine", "pattern", "--data", str(tmp_path))
    assert done.exit_code == 2
    assert "no session 'nobody'" in done.stderr
