"""The application, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from app import health, histories, models, problems, rest, socket
from app.description import DESCRIPTION, Application
from app.edge import Edge
from app.headers import SecurityHeaders
from app.paths import CHUNK_HEADER, SOCKET_PATH
from app.request_ids import RequestIds
from app.settings import Settings
from app.stores import Stores
from engine.api import Engine, Reducer

STATIC = Path(__file__).resolve().parent.parent / "static"


def create_app(
    settings: Settings, engine: Engine, stores: Stores, reducers: Mapping[str, Reducer]
) -> FastAPI:
    """The application over an engine that is not started yet: starting is part of its lifespan."""
    app = Application(title="Worldline", version="1", description=DESCRIPTION, lifespan=_lifespan)
    app.state.edge = Edge(settings, engine, stores, reducers)
    problems.install(app)
    app.include_router(models.router)
    app.include_router(rest.router)
    app.include_router(histories.router)
    app.include_router(health.router)
    app.add_api_websocket_route(SOCKET_PATH, socket.realtime_video)
    app.add_api_route("/", _demo, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("Authorization", "Content-Type"),
            expose_headers=(CHUNK_HEADER, "Location", "Retry-After", "X-Request-ID"),
        )
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestIds)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The server answers at once; the model loads beside it."""
    edge: Edge = app.state.edge
    loading = edge.spawn(edge.start())
    watching = edge.spawn(edge.metrics.loop_lag.watch())
    try:
        yield
    finally:
        loading.cancel()
        watching.cancel()
        await edge.drain()


async def _demo() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})
