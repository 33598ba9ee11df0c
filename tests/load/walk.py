"""One walk: a socket that plays a session, as a blocking client that gevent can run by the hundred."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from app.client import ACTIONS
from app.paths import socket_url


class WalkEnded(Exception):
    """The server refused or ended the walk; `retryable` where it said to try again later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.retryable = retryable


class Walk:
    """Use it as a context manager. Times are `perf_counter` seconds."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float = 30.0) -> None:
        self._url = socket_url(url)
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_s = timeout_s
        self._socket: ClientConnection | None = None
        self._sent: dict[str, float] = {}  # event ids that no chunk has shown yet

    def __enter__(self) -> Self:
        self._socket = connect(
            self._url,
            compression=None,
            max_size=None,
            proxy=None,
            additional_headers=self._headers,
            ping_interval=None,
            open_timeout=self._timeout_s,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        assert self._socket is not None
        try:
            self._socket.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed as closed:
            raise WalkEnded("closed", str(closed)) from None

    def hold(self, event_id: str, *keys: str) -> None:
        """Hold these keys until they are changed."""
        data = {"mode": "state", "transitions": [{"actions": list(keys)}]}
        camera = {"schema": ACTIONS, "data": data}
        self._sent[event_id] = time.perf_counter()
        event = {"multi_modal_data": {"camera": camera}}
        self.send("session.interaction", interaction={"event_id": event_id, "event": event})

    def receive(self, until: float) -> tuple[Mapping[str, Any], int] | None:
        """The next message and the bytes of its media, or None at `until`. Raises `WalkEnded`."""
        assert self._socket is not None
        try:
            text = self._socket.recv(timeout=max(0.0, until - time.perf_counter()))
            message: dict[str, Any] = json.loads(text)
            if message["type"] == "video.chunk_metadata":
                return message, len(self._socket.recv(timeout=self._timeout_s))
        except TimeoutError:
            return None
        except ConnectionClosed as closed:
            raise WalkEnded("closed", str(closed)) from None
        if message["type"] == "error":
            raise WalkEnded(message["code"], message["message"], retryable=message["retryable"])
        if message["type"] == "session.interaction.rejected":
            raise WalkEnded(message["code"], message["message"])
        return message, 0

    def shown(self, metadata: Mapping[str, Any], arrived: float) -> list[float]:
        """Seconds from sending each event that this chunk is the first to show."""
        begun = (self._sent.pop(name, None) for name in metadata["started_event_ids"])
        return [arrived - sent for sent in begun if sent is not None]
