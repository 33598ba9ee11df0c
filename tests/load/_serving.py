"""A pattern server in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVE = [sys.executable, "-m", "app.cli", "serve", "--engine", "pattern", "--port", "0"]


@contextmanager
def pattern_server(data: Path, *options: str, log: Path | None = None, **settings: str) -> Iterator[str]:
    """The server's address, until the block ends. Raises `RuntimeError` where it fails.

    `settings` are environment variables; its log goes to the file `log`, or to our own standard error.
    """
    with nullcontext() if log is None else log.open("w") as errors:
        process = subprocess.Popen(
            [*SERVE, "--data", str(data), *options],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        if "http://" not in ready:
            raise RuntimeError(f"the server did not come up: {ready!r}")
        yield "http://" + ready.split("http://")[1].strip().rstrip("/")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RuntimeError("the server did not end within 30 s of SIGTERM") from None
        finally:
            process.stdout.close()
    if status != 0:
        raise RuntimeError(f"the server ended with status {status}")
