"""A short run of the load test against a real server: that it measures, and that nothing fails."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.load._serving import ROOT, pattern_server

# Importing locust here would patch the sockets of every other test.
pytestmark = pytest.mark.skipif(find_spec("locust") is None, reason="locust comes with the extra `load`")
LOCUST = [sys.executable, "-m", "locust", "-f", "tests/load/locustfile.py", "--headless", "--only-summary"]


def locust(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*LOCUST, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.load
def test_a_short_load_measures_everything_and_nothing_fails(tmp_path: Path) -> None:
    with pattern_server(tmp_path, "--log-level", "warning") as url:
        crowd = ("--users", "6", "--spawn-rate", "6", "--run-time", "10s", "--stop-timeout", "10")
        ran = locust("--host", url, *crowd, "--chunks", "8", "--steady-from", "4")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    line = next(line for line in ran.stdout.splitlines() if line.startswith('{"load"'))
    figures = json.loads(line)["load"]
    assert figures["walks"] > 0 and figures["failed_walks"] == 0
    assert figures["steady_chunks"] > 0
    assert 0 <= figures["slo_attainment"] <= 1
    for name in ("ttfc_ms", "interval_ms", "control_to_frame_ms", "rtf"):
        assert figures[name]["p50"] > 0, name
    assert figures["underruns"] >= 0 and figures["underrun_s"] >= 0
    for request in ("/v1/sessions/[id]/chunks", "/v1/sessions/[id]/events", "/health"):
        assert request in ran.stdout + ran.stderr


@pytest.mark.load
def test_other_peoples_machines_are_not_loaded_by_mistake() -> None:
    ran = locust("--host", "http://192.0.2.1", "--users", "1", "--run-time", "1s")
    assert ran.returncode != 0
    assert "loopback" in ran.stdout + ran.stderr and "192.0.2.1" in ran.stdout + ran.stderr
