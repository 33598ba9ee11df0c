"""A real server, a real headless Chromium, and what tests ask of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_page import FPS, Demo
from demo_server import Server

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def lacking(reason: str) -> None:
    """Skip, unless the environment says that a browser has to be there."""
    if os.environ.get("WORLDLINE_REQUIRE_BROWSER") == "1":
        pytest.fail(f"WORLDLINE_REQUIRE_BROWSER=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


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
    demos: list[Demo] = []

    def open_demo(query: str = "", *, prepare: Any = None, **context: Any) -> Demo:
        url, fps = context.pop("url", server.url), context.pop("fps", FPS)
        options = {"viewport": {"width": 1280, "height": 800}} | context
        demo = Demo(browser.new_context(**options).new_page(), url)
        demos.append(demo)
        if prepare is not None:
            prepare(demo.page)
        demo.open(query, fps)
        return demo

    yield open_demo
    for demo in demos:
        demo.page.context.close()
        assert demo.problems == []
        assert all(url.startswith((demo.url, "blob:", "data:")) for url in demo.requested)
