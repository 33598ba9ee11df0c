"""Routes whose bodies are strict JSON of a bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from app.edge import edge_of
from app.refusals import MessageTooLarge, StartTimeout, WrongMediaType, shortened
from app.strict_json import parse_object


class _ReadRequest(Request):
    """A request whose body was read and parsed already."""

    def __init__(self, request: Request, body: bytes) -> None:
        super().__init__(request.scope, request.receive)
        self._bytes = body
        self._value = parse_object(body) if body else None

    async def body(self) -> bytes:
        return self._bytes

    async def json(self) -> Any:
        return self._value


class StrictRoute(APIRoute):
    """Reads the body itself, before FastAPI does: `NotJson`, `InvalidField` and the rest reach the client."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, behind the strict reading."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            try:
                body = await _in_time(request)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody is left to read it
            if body:
                _require_json(request)
            return await handle(_ReadRequest(request, body))

        return strictly


async def _in_time(request: Request) -> bytes:
    settings = edge_of(request).settings
    try:
        async with asyncio.timeout(settings.start_timeout_s):
            return await _bounded(request, settings.start_max_bytes)
    except TimeoutError:
        raise StartTimeout(f"the body did not arrive within {settings.start_timeout_s:g} seconds") from None


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise WrongMediaType(f"Content-Type must be application/json; got {shortened(media_type)}")


async def _bounded(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise MessageTooLarge(f"a body has at most {limit} bytes")
        parts.append(part)
    return b"".join(parts)
