"""A real server, a real headless Chromium, and what tests ask of the page."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
READY = re.compile(r"https?://[\w.\[\]:]+:\d+")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def lacking(reason: str) -> None:
    """Skip, unless the environment says that a browser has to be there."""
    if os.environ.get("WORLDLINE_REQUIRE_BROWSER") == "1":
        pytest.fail(f"WORLDLINE_REQUIRE_BROWSER=1, but {reason}", pytrace=False)
    pytest.skip(reason)


class Server:
    """`worldline serve` in a process of its own, on a port that stays the same when it is started again."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self.log = log
        self.url = f"http://127.0.0.1:{port}/"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [Path(sys.executable).with_name("worldline"), "serve", "--engine", "pattern"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WORLDLINE_")}
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
        raise AssertionError(f"the server ended before it was ready: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End the server and its worker as a crash would: without a word."""
        if self.process is None:
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(port, tmp_path_factory.mktemp("server") / "log.txt")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # By module: playwright's event loop must not run while other modules' asynchronous tests do.
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        lacking(f"none of {', '.join(NAMES)} is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("the package `playwright` is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_demo(browser: Any, server: Server) -> Iterator[Any]:
    """Opens the demo; at the end no page may have had an error, or asked another server for anything."""
    from demo_page import Demo

    demos: list[Demo] = []

    def open_demo(query: str = "", **context: Any) -> Demo:
        options = {"viewport": {"width": 1280, "height": 800}} | context
        demo = Demo(browser.new_context(**options).new_page(), server.url)
        demos.append(demo)
        demo.open(query)
        return demo

    yield open_demo
    for demo in demos:
        demo.page.context.close()
        assert demo.problems == []
        assert all(url.startswith((server.url, "blob:", "data:")) for url in demo.requested)
