"""Every HTTP request has an id of ours: in its log lines, and in the answer's `X-Request-ID`."""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.logs import about

HEADER = "X-Request-ID"
_SESSION = re.compile(r"/v1/sessions/([A-Za-z0-9][A-Za-z0-9_.:-]{0,63})(?:/|$)")


class RequestIds:
    """Names the request, and the session that its path is about. A client's own id is not taken over."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; what starts an answer gets the header. A socket names its own request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        found = _SESSION.match(scope["path"])
        about(request_id=request_id, session_id=found.group(1) if found else None)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        await self._app(scope, receive, with_id)
