"""A real server on a free port of the loopback, over a test-pattern engine."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from app.stores import Stores
from engine.api import Engine
from tests.app.running_server import Running, running


@pytest.fixture
async def start_server() -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Start servers with an engine and settings of the test's own."""
    async with AsyncExitStack() as stack:

        async def start(
            engine: Engine | None = None, stores: Stores | None = None, **settings: Any
        ) -> Running:
            return await stack.enter_async_context(running(engine, stores, **settings))

        yield start


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    """A server with the default settings."""
    async with running() as started:
        yield started
