from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.checkpoint.hub import COMMIT, LARGE, NAME, hub

pytest.importorskip("huggingface_hub", reason="needs the extra `lingbot`: pip install -e '.[lingbot]'")
ROOT = Path(__file__).resolve().parents[3]
LOCATE = """
import sys
from pathlib import Path
from engine.checkpoint.index import CheckpointRefused
from engine.checkpoint.source import locate
try:
    print(locate(Path(sys.argv[1])))
except CheckpointRefused as refused:
    print("refused:", refused)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "vae").mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    (folder / "vae" / "config.json").write_text("{}")
    (folder / "vae" / "model.safetensors").write_bytes(b"w" * LARGE)
    (folder / "vae" / "model.bin").write_bytes(b"a pickle")
    (folder / "setup.py").write_text("raise SystemExit")
    return folder


def locate(model: str, url: str, home: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the library reads its environment once."""
    given = {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", LOCATE, model]
    env = {**os.environ, **given, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, cwd=home.parent, capture_output=True, text=True, check=True)


def test_a_hub_s_files_are_fetched_without_pickles_and_code_and_go_on_where_they_broke_off(
    repository: Path, tmp_path: Path
) -> None:
    with hub(repository) as server:
        done = locate(f"{NAME}@{COMMIT}", server.url, tmp_path / "home")
        asked = list(server.asked)
    folder = Path(done.stdout.strip())
    came = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert came == {"model_index.json", "vae/config.json", "vae/model.safetensors"}, done.stdout
    assert (folder / "vae/model.safetensors").read_bytes() == b"w" * LARGE
    assert {name for name, _ in asked} == came
    whole, rest = [first for name, first in asked if name == "vae/model.safetensors"]
    assert whole == 0
    assert 0 < rest < LARGE, "the second request asks for the rest alone"
    assert "Fetching 3 files: 100%" in done.stderr


def test_a_commit_that_the_hub_lacks_is_refused_by_name(repository: Path, tmp_path: Path) -> None:
    other = COMMIT[::-1]
    with hub(repository) as server:
        done = locate(f"{NAME}@{other}", server.url, tmp_path / "home")
    assert done.stdout.startswith(f"refused: {NAME}@{other}: ")
    assert "Revision Not Found" in done.stdout
