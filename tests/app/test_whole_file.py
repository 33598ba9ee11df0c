"""What a command makes is whole, or not there; however the command ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from app.commands.whole_file import NotWritable, require_writable, whole_file

ROOT = Path(__file__).parents[2]


def test_a_file_that_is_not_finished_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "walk.mp4"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="halfway"), whole_file(path) as part:
        part.write_bytes(b"half")
        raise RuntimeError("halfway")
    assert [one.name for one in tmp_path.iterdir()] == ["walk.mp4"]
    assert path.read_bytes() == b"before"
    with whole_file(path) as part:
        part.write_bytes(b"after")
    assert [one.name for one in tmp_path.iterdir()] == ["walk.mp4"]
    assert path.read_bytes() == b"after"


def test_what_a_link_leads_to_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    link, target = tmp_path / "walk.mp4", tmp_path / "videos" / "walk.mp4"
    link.symlink_to(target)
    require_writable([link])
    with whole_file(link) as part:
        part.write_bytes(b"after")
    assert link.is_symlink() and target.read_bytes() == b"after"
    with pytest.raises(NotWritable, match="given twice"):
        require_writable([link, target])


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "walk.mp4"
    link.symlink_to(link)
    with pytest.raises(NotWritable, match=r"walk.mp4: can't be written: "):
        require_writable([link])
    with pytest.raises(NotWritable, match=r"walk.mp4: can't be written: "), whole_file(link) as part:
        part.write_bytes(b"after")


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "null"):
        with pytest.raises(NotWritable, match="not a regular file"):
            require_writable([path])


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_ended_leaves_nothing_unfinished(tmp_path: Path, ended_by: signal.Signals) -> None:
    video, part = tmp_path / "walk.mp4", tmp_path / "walk.mp4.part"
    video.write_bytes(b"before")
    options = ["--scene", "meadow-1", "--threads", "1", "--num-frames", str(9 + 12 * 10_000)]
    command = [sys.executable, "-m", "app.cli", "generate", str(video), *options]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # whatever this process ignores
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heard) as running:
        try:
            until = time.monotonic() + 60
            while not (part.exists() and part.stat().st_size):
                assert running.poll() is None and time.monotonic() < until, "it makes no video"
                time.sleep(0.01)
            running.send_signal(ended_by)
            _, said = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 128 + ended_by
    assert "Traceback" not in said
    assert [one.name for one in tmp_path.iterdir()] == ["walk.mp4"]
    assert video.read_bytes() == b"before"
