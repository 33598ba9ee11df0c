"""Headers that keep the demo's page to itself."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self' ws: wss:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DOCS_POLICY = (  # FastAPI's pages of the API load their viewer from a content network
    "default-src 'self'; img-src 'self' data: https://fastapi.tiangolo.com; connect-src 'self'; "
    "script-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SecurityHeaders:
    """Adds them to every HTTP answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; what starts an answer gets the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        policy = DOCS_POLICY if scope["path"] in ("/docs", "/redoc") else POLICY

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = policy
                headers.update(HEADERS)
                if scope["path"].startswith("/static"):
                    headers["Cache-Control"] = "no-cache"  # so that all modules of a page are of one version
            await send(message)

        await self._app(scope, receive, with_headers)
