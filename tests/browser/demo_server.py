"""The real server, as a process that a test can kill."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

READY = re.compile(r"https?://[\w.\[\]:]+:\d+")


class Server:
    """`worldline serve` in a process of its own, on a port that stays the same when it is started again."""

    def __init__(self, folder: Path, engine: str = "pattern", **settings: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.port = port
        self.log = folder / "log.txt"
        self.engine = engine
        self.settings = settings
        self.url = f"http://127.0.0.1:{port}/"
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        command = [Path(sys.executable).with_name("worldline"), "serve", "--engine", self.engine]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WORLDLINE_")}
        environment |= {f"WORLDLINE_{name.upper()}": value for name, value in self.settings.items()}
        with self.log.open("a") as errors:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), "--data", str(self.log.parent / "data")],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if READY.search(line):
                return
        self.kill()
        raise AssertionError(f"the server ended before it was ready: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End the server and its worker as a crash would: without a word."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.process = None
