"""Where a socket's client waits for room: it hears of its place in line, and may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Never, TypeVar

from app.channel import Channel
from app.edge import Edge
from app.guards import first_of, guarded
from app.refusals import InvalidField, MessageTooLarge
from app.replies import told, warning
from app.wire import Close, Ping, Stop, parse_message
from sessions.admission import Told
from sessions.outputs import QueuePosition

T = TypeVar("T")

KEPT_CHARS = 262_144  # of messages that came before there was a stream


class LeftLine(Exception):
    """The client said that it will not wait any more; `closes`: nor want its session."""

    def __init__(self, closes: bool) -> None:
        super().__init__(closes)
        self.closes = closes


class Lobby:
    """One client's wait. What it sends meanwhile, its stream gets once there is one."""

    def __init__(self, edge: Edge, channel: Channel) -> None:
        self._edge = edge
        self._channel = channel
        self._position: QueuePosition | None = None
        self._waits = asyncio.Event()  # it was told of its position
        self._moved = asyncio.Event()  # it has another one
        self._kept: list[str] = []

    async def wait(self, enter: Callable[[Told], Coroutine[Any, Any, T]]) -> T:
        """What `enter` answers, however long that takes.

        Raises what it does; `LeftLine` and `WebSocketDisconnect` where the client left, `Stalled` where
        nothing is heard of it; then its place is free.
        """
        try:
            return await first_of(enter(self._tell), self._keep_company())
        finally:
            self._channel.put_back(self._kept)

    async def _keep_company(self) -> Never:
        """Who need not wait is not read here, and has to be told nothing."""
        await self._waits.wait()
        await guarded(self._edge, self._channel, self._announce(), self._receive())

    def _tell(self, position: QueuePosition) -> None:
        self._position = position
        self._waits.set()
        self._moved.set()

    async def _announce(self) -> Never:
        """Where several changes come at once, the last is told."""
        while True:
            self._moved.clear()
            position = self._position
            assert position is not None, "who waits has a position"
            await self._channel.send(told(self._channel.request_id, position))
            await self._moved.wait()

    async def _receive(self) -> Never:
        while True:
            text = await self._channel.receive()
            try:
                message = parse_message(text)
            except (InvalidField, MessageTooLarge):
                message = None  # its stream will say what is wrong
            if isinstance(message, Ping):
                await self._channel.send({"type": "session.pong"})
            elif isinstance(message, Stop | Close):
                self._kept.append(text)  # for the stream, where there is one at this very moment
                raise LeftLine(closes=isinstance(message, Close))
            elif sum(map(len, self._kept)) + len(text) > KEPT_CHARS:
                too_much = f"at most {KEPT_CHARS} characters are kept for you until there is room"
                await self._channel.send(warning("queue_full", too_much))
            else:
                self._kept.append(text)
