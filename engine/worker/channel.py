"""The pipe between server and worker: pickled messages, each behind its length.

Both ends belong to this program and share a machine; nothing that a client sent is ever unpickled.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import threading
from typing import Final

_LENGTH: Final = struct.Struct(">Q")


def dump(message: object) -> bytes:
    """A message as it lies in the pipe."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class BlockingChannel:
    """The worker's end: any thread may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._reader = end.makefile("rb")

    def send(self, message: object) -> None:
        """Hand a message over; raises `OSError` where the other side is gone."""
        data = dump(message)
        with self._sending:
            self._end.sendall(data)

    def receive(self) -> object | None:
        """The next message; None where the other side is gone."""
        try:
            head = self._reader.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                return None
            (length,) = _LENGTH.unpack(head)
            body = self._reader.read(length)
        except OSError:
            return None
        message: object = pickle.loads(body) if len(body) == length else None
        return message


class AsyncChannel:
    """The server's end, on its event loop: no thread, no polling."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> AsyncChannel:
        """A channel that owns `end`."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: object) -> None:
        """Hand a message over; what the other side is too busy to read waits here."""
        self._writer.write(dump(message))

    async def receive(self) -> object | None:
        """The next message; None where the other side is gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            body = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        message: object = pickle.loads(body)
        return message

    def close(self) -> None:
        """Close this end at once, whatever was not sent yet; idempotent."""
        self._writer.transport.abort()
