"""`worldline capacity`: the plan as JSON, or the reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli

TINY = {
    "layers": 1,
    "kv_heads": 1,
    "head_dim": 1,
    "dtype": "float32",
    "tokens_per_frame": 1,
    "sink_frames": 3,
    "window_frames": 3,
    "frames_per_block": 3,
    "branches": 1,
    "cross_tokens": 2,
    "model_state_bytes": 0,
    "max_scratch_tokens": 0,
}


@pytest.fixture
def geometry(tmp_path: Path) -> Path:
    path = tmp_path / "geometry.json"
    path.write_text(json.dumps(TINY))
    return path


def plan_of(geometry: Path, available: int, fraction: float, requested: int) -> list[str]:
    sizes = ["--available", str(available), "--fraction", str(fraction), "--requested", str(requested)]
    return ["capacity", "--geometry", str(geometry), *sizes]


def test_the_plan_is_one_json_line(geometry: Path) -> None:
    done = CliRunner().invoke(cli, plan_of(geometry, 192, 1, 2))
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "requested": 2,
        "effective": 2,
        "configured_budget": 192,
        "budget": 192,
        "page_bytes": 8,
        "managed_pages": 17,
        "scratch_pages": 3,
        "cross_bytes_per_session": 16,
        "required_bytes": 192,
    }


def test_too_little_memory_is_an_error_that_prints_both_figures(geometry: Path) -> None:
    done = CliRunner().invoke(cli, plan_of(geometry, 127, 1, 1))
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "available=127, required=128" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"layers": 1}', "kv_heads: missing"),
        (json.dumps(TINY | {"layers": -1}), "layers: got -1, must be at least 1"),
        ("\xff{", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_geometry_is_an_error_that_names_the_field(geometry: Path, text: str, reason: str) -> None:
    geometry.write_text(text, encoding="latin-1")
    done = CliRunner().invoke(cli, plan_of(geometry, 192, 1, 1))
    assert done.exit_code == 1
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_without_an_end_is_read_to_a_limit() -> None:
    done = CliRunner().invoke(cli, plan_of(Path("/dev/zero"), 192, 1, 1))
    assert (done.exit_code, "not JSON" in done.stderr) == (1, True)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, plan_of(tmp_path / "none.json", 192, 1, 1))
    assert done.exit_code == 2


def test_planning_imports_no_torch(geometry: Path) -> None:
    arguments = plan_of(geometry, 192, 1, 2)
    code = f"import sys; sys.argv = ['worldline', *{arguments!r}]\n"
    code += "from app.cli import cli\ncli(standalone_mode=False)\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
