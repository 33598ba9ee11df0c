"""A real server on a free port of the loopback, over a test-pattern engine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from app.bootstrap import build_reducers
from app.client import Client
from app.edge import Edge
from app.main import create_app
from app.serving import Server, address
from app.settings import Settings
from app.stores import Stores
from engine.api import Engine, Reducer
from engine.pattern.engine import PatternEngine
from sessions.memory_journal import MemoryJournal


@dataclass(frozen=True)
class Running:
    """A server and a client of it."""

    edge: Edge
    client: Client
    url: str
    server: Server

    async def until(self, condition: Callable[[], object]) -> None:
        """Let everything run until the condition holds; pytest's time limit ends a wait for nothing."""
        while not condition():  # noqa: ASYNC110 - what changes it sets no event
            await asyncio.sleep(0.001)


@asynccontextmanager
async def listening(server: uvicorn.Server) -> AsyncIterator[str]:
    """Its address, until the block ends."""
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    try:
        yield address(server)
    finally:
        await server.shutdown()


@asynccontextmanager
async def running(
    engine: Engine | None = None,
    stores: Stores | None = None,
    reducers: Mapping[str, Reducer] | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Serve until the block ends."""
    chosen = Settings(port=0, **settings)
    app = create_app(
        chosen, engine or PatternEngine(), stores or Stores(MemoryJournal()), reducers or build_reducers()
    )
    edge: Edge = app.state.edge
    server = Server(app, chosen, edge.drain)
    async with listening(server) as url, Client(url) as client:
        await edge.ready.wait()
        yield Running(edge, client, url, server)
