"""How the application is served: uvicorn with video's needs, and sockets that can't outlive their peer."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from app.http_protocol import http_protocol
from app.settings import Settings

MAX_FRAGMENTS = 4096  # of one message; empty ones would never reach its limit of bytes
START_SLACK = 64 * 2**10  # a start just over its limit still gets a message that says so


def socket_protocol(abort_s: float) -> type[WebSocketsSansIOProtocol]:
    """uvicorn's WebSocket, aborted where a peer that reads nothing would keep it open after its handler."""

    class SocketProtocol(WebSocketsSansIOProtocol):
        """What the handler left unsent has `abort_s` seconds to drain."""

        def send_receive_event_to_app(self) -> None:
            """Text that is not UTF-8 is the client's mistake: 1007, and no traceback in our log."""
            if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
                self.frames = []
                self.conn.fail(1007, "text must be UTF-8")
                self.handle_parser_exception()
                return
            super().send_receive_event_to_app()

        def handle_cont(self, event: Frame) -> None:
            """A message in endless pieces is too large, however small they are."""
            if len(self.frames) >= MAX_FRAGMENTS:
                self.frames = []
                self.conn.fail(1009, f"a message has at most {MAX_FRAGMENTS} fragments")
                self.handle_parser_exception()
                return
            super().handle_cont(event)

        def handle_ping(self) -> None:
            """A peer that pings and reads nothing gets no more pongs: they would pile up here."""
            if self.writable.is_set():
                super().handle_ping()
            else:
                self.conn.data_to_send()

        async def run_asgi(self) -> None:
            """Run the handler."""
            try:
                await super().run_asgi()
            finally:
                if not self.disconnected:
                    self.loop.call_later(abort_s, self.transport.abort)

    return SocketProtocol


class Server(uvicorn.Server):
    """Not started yet. Ends the streams by `drain` before uvicorn would cut their sockets."""

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        drain: Callable[[], Awaitable[None]],
        reload: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(_config(app, settings))
        self._drain = drain
        self._reload = reload  # called at SIGHUP

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The first signal ends the server in good order, with exit status 0; a second one at once."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self._told, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in (*signals, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _told(self, number: int) -> None:
        if self.should_exit:
            os._exit(128 + number)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Where the address can't be had, uvicorn logs why and would exit; here the server ends unstarted."""
        try:
            await super().startup(sockets)
        except SystemExit:
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called once, when the server was told to stop."""
        await self._drain()
        await super().shutdown(sockets)


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Video is compressed already, so frames are not deflated again."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=settings.log_level == "debug",
        server_header=False,
        http=http_protocol(settings.start_timeout_s, settings.stall_timeout_s),
        ws=socket_protocol(settings.last_word_timeout_s),
        ws_per_message_deflate=False,
        ws_max_size=settings.start_max_bytes + START_SLACK,
        ws_ping_interval=settings.ping_interval_s,
        ws_ping_timeout=settings.ping_timeout_s,
        timeout_graceful_shutdown=10,
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def address(server: uvicorn.Server) -> str:
    """Where a started server listens, as a browser wants it."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
