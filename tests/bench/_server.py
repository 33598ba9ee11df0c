"""The real server, in a process of its own, for benchmarks that measure it from outside."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def served(engine: str = "native") -> Iterator[str]:
    """Its address, once the model is ready: `tiny`, or the test pattern."""
    with served_process(engine, {}) as (url, _):
        yield url


@contextmanager
def served_process(engine: str, settings: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Its address and process id; `settings` are environment variables."""
    with tempfile.TemporaryDirectory() as data:
        command = [
            sys.executable,
            "-m",
            "app.cli",
            "serve",
            "--engine",
            engine,
            "--port",
            "0",
            "--data",
            data,
        ]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "WORLDLINE_LOG_LEVEL": "warning", **settings}
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            try:
                if not line.startswith("Worldline is ready"):
                    raise RuntimeError(f"the server did not start: it ended with {process.wait(10)}")
                yield line.split()[-1], process.pid
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
