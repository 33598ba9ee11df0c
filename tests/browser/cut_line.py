"""A line between browser and server that a test can cut."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset instead of a goodbye


class Line:
    """Forwards connections to a port of this machine; `cut` ends them at the browser's side alone."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self._near: list[socket.socket] = []
        self._far: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}/"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.cut()
        for far in self._far:
            with contextlib.suppress(OSError):
                far.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in (self._door, *self._far):
            connection.close()

    def cut(self) -> None:
        """The browser sees its connections break; the server hears nothing."""
        near, self._near = self._near, []
        for connection in near:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._door.accept()
                self._near.append(near)
                self._far.append(far := socket.create_connection(("127.0.0.1", self._to)))
                for source, sink in ((near, far), (far, near)):
                    thread = threading.Thread(target=_pump, args=(source, sink, near))
                    self._threads.append(thread)
                    thread.start()


def _pump(source: socket.socket, sink: socket.socket, near: socket.socket) -> None:
    """Until either side ends; a goodbye of the server's is passed on, one of the browser's is not."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        if source is not near:
            near.shutdown(socket.SHUT_WR)
