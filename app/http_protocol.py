"""uvicorn's HTTP, for which a request has to arrive in bounded time."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def http_protocol(request_s: float, reader_s: float) -> type[H11Protocol]:
    """A connection that owes the rest of a request's head for `request_s` seconds is cut, and so is one that
    has read none of what waits for it for `reader_s` seconds: what it does not read is not made meanwhile.

    uvicorn itself waits for it for ever, so that trickled heads could use up all connections. A body is read
    by its route, which has a limit of its own; what trickles in after its answer is cut in the same way.
    """

    class HttpProtocol(H11Protocol):
        """`_owed` runs while the peer owes something, `_unread` while it does not read."""

        _owed: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.get_protocol() is not self:
                return  # it is a WebSocket now
            answered = self.cycle is not None and self.cycle.response_complete
            if self.conn.their_state is h11.IDLE or answered:
                self._await_request()
            else:
                self._settle()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is not h11.SEND_BODY:
                self._settle()  # idle between two requests: uvicorn's keep-alive limit holds

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            self._settle()
            self._reads()
            super().handle_websocket_upgrade(event)

        def connection_lost(self, exc: Exception | None) -> None:
            self._settle()
            self._reads()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._unread is None:
                self._unread = self.loop.call_later(reader_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reads()

        def _reads(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _await_request(self) -> None:
            if self._owed is None:
                self._owed = self.loop.call_later(request_s, self.transport.abort)

        def _settle(self) -> None:
            if self._owed is not None:
                self._owed.cancel()
                self._owed = None

    return HttpProtocol
