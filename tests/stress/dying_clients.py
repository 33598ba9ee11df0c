"""Clients that are gone at a random moment of their life, in every way in which a connection can end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import struct
from contextlib import suppress
from typing import Any

from app.paths import SOCKET_PATH

MOMENTS = ("connected", "asking", "shaken", "starting", "started", "receiving", "playing")
WAYS = ("reset", "finish", "half-close", "silence")
HEAD = (
    f"GET {SOCKET_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: no lingering, so that a close sends RST


def frame(message: dict[str, Any]) -> bytes:
    """A text frame, masked as a client's has to be."""
    payload, mask = json.dumps(message).encode(), os.urandom(4)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return bytes([0x81, 0xFE]) + struct.pack("!H", len(payload)) + mask + masked


class Client:
    """Lives on its own connection; `end` is how it leaves."""

    def __init__(self, port: int, dice: random.Random) -> None:
        self._port = port
        self._dice = dice
        self.moment = dice.choice(MOMENTS)
        self.way = dice.choice(WAYS)

    async def live(self, over: asyncio.Event) -> None:
        """Up to the moment of its death; whoever falls silent keeps its connection open until `over`."""
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        try:
            with suppress(OSError):  # the server may be the first to go
                await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self._port))
                await self._until_its_moment(raw)
                await self._leave(raw, over)
        finally:
            raw.close()

    async def _until_its_moment(self, raw: socket.socket) -> None:
        loop, at = asyncio.get_running_loop(), MOMENTS.index(self.moment)
        if at >= 1:
            await loop.sock_sendall(raw, HEAD if at > 1 else HEAD[: self._dice.randrange(1, len(HEAD))])
        if at >= 2:
            await loop.sock_recv(raw, 4096)
        if at >= 3:
            await self._start(raw, whole=at > 3)
        if at >= 4:
            await loop.sock_recv(raw, 4096)  # `video.start`, or what came with it
        if at >= 5:
            await self._receive(raw, self._dice.randrange(1, 30_000))
        if at >= 6:
            await self._play(raw)
        await asyncio.sleep(self._dice.random() * 0.02)

    async def _start(self, raw: socket.socket, *, whole: bool) -> None:
        start = {
            "type": "session.start",
            "prompt": "a meadow",
            "mode": self._dice.choice(["continuous", "stepped"]),
        }
        data = frame({**start, "extra_params": {"pace_to_media_time": self._dice.random() < 0.5}})
        cut = len(data) if whole else self._dice.randrange(1, len(data))
        await asyncio.get_running_loop().sock_sendall(raw, data[:cut])

    async def _receive(self, raw: socket.socket, size: int) -> None:
        """So many bytes, most likely into the middle of a chunk; or as many as come in a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while size > 0 and (
                    piece := await asyncio.get_running_loop().sock_recv(raw, min(size, 4096))
                ):
                    size -= len(piece)

    async def _play(self, raw: socket.socket) -> None:
        for number in range(self._dice.randrange(1, 6)):
            kind = self._dice.choice(["interaction", "interaction", "reset", "cancel", "ping", "stop"])
            message: dict[str, Any] = {"type": f"session.{kind}"}
            if kind == "interaction":
                message["interaction"] = {"event_id": str(number), "event": {"prompt": f"wish {number}"}}
            await asyncio.get_running_loop().sock_sendall(raw, frame(message))
            await asyncio.sleep(self._dice.random() * 0.01)

    async def _leave(self, raw: socket.socket, over: asyncio.Event) -> None:
        match self.way:
            case "reset":
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            case "half-close":
                raw.shutdown(socket.SHUT_WR)
                await self._receive(raw, 100_000)
            case "silence":
                await over.wait()
