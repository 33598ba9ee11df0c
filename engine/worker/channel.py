"""The two ends of the pipe between server and worker."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from engine.worker.wire import Frames, dump

READ_BYTES: Final = 256 * 2**10


class BlockingChannel:
    """The worker's end: any thread may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._frames = Frames()
        self._received: deque[object] = deque()

    def send(self, message: object) -> None:
        """Hand a message over; raises `OSError` where the other side is gone."""
        data = dump(message)
        with self._sending:
            self._end.sendall(data)

    def receive(self) -> object | None:
        """The next message; None where the other side is gone."""
        while not self._received:
            try:
                data = self._end.recv(READ_BYTES)
            except OSError:
                return None
            if not data:
                return None
            self._received.extend(self._frames.feed(data))
        return self._received.popleft()


class AsyncChannel(asyncio.Protocol):
    """The server's end, on its event loop: no thread, no task, no polling.

    `hear` is called with each message as soon as it is here, and with None once the other side is gone.
    """

    def __init__(self, hear: Callable[[object | None], object]) -> None:
        self._hear = hear
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def over(cls, end: socket.socket, hear: Callable[[object | None], object]) -> AsyncChannel:
        """A channel that owns `end`."""
        _, channel = await asyncio.get_running_loop().create_connection(lambda: cls(hear), sock=end)
        return channel

    def send(self, message: object) -> None:
        """Hand a message over; what the other side is too busy to read waits here."""
        assert self._transport is not None, "it is connected before anybody has it"
        self._transport.write(dump(message))

    def close(self) -> None:
        """Close this end at once, whatever was not sent yet; idempotent."""
        assert self._transport is not None, "it is connected before anybody has it"
        self._transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Some bytes are here."""
        for message in self._frames.feed(data):
            self._hear(message)

    def connection_lost(self, error: Exception | None) -> None:
        """It is closed, by whichever side."""
        self._hear(None)
