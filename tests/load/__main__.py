"""`make load`: a pattern server on the loopback, and locust against it for a bounded time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.load._serving import ROOT, pattern_server

LOCUST = [sys.executable, "-m", "locust", "-f", "tests/load/locustfile.py", "--headless", "--only-summary"]


def main() -> int:
    """Locust's exit status: 0 where every walk and request went well."""
    users, rate = os.environ.get("USERS", "20"), os.environ.get("RATE", "5")
    length = os.environ.get("TIME", "60s")
    with (
        tempfile.TemporaryDirectory() as folder,
        pattern_server(Path(folder), "--log-level", "warning") as url,
    ):
        asked = [
            "--host",
            url,
            "--users",
            users,
            "--spawn-rate",
            rate,
            "--run-time",
            length,
            "--stop-timeout",
            "20",
        ]
        return subprocess.run([*LOCUST, *asked, *sys.argv[1:]], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
