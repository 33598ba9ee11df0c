"""What waits between a session and its client: bounded, with exactly one terminal message at its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from sessions.outputs import ChunkOutput, Done, Failed, Output, Terminal


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """What waits now, and the most that ever waited."""

    chunks: int
    bytes: int
    messages: int  # other than chunks
    most_bytes: int
    put: int  # outputs so far
    finished: bool


class Outbox:
    """Outputs in order, for one reader: iterate it; it ends after the terminal message.

    Chunks are bounded by bytes: who makes them waits for `has_room` before it begins one (so at most one
    chunk more than `limit_bytes` waits). Other messages are bounded by their count in the same way, each
    kind for itself, so that a client that stopped reading video still has its interactions answered. A client
    that acknowledges chunks gets no more than `unacked_chunks` ahead of that.
    """

    def __init__(
        self,
        limit_bytes: int,
        limit_messages: int,
        on_room: Callable[[], object],
        unacked_chunks: int | None = None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._unacked_chunks = unacked_chunks
        self._last_chunk = self._acked = -1  # transport indices; nothing is acknowledged
        self._limit_messages = limit_messages
        self._waiting: deque[Output] = deque()
        self._bytes = self._messages = self._most_bytes = self._put = 0
        self._terminal: Terminal | None = None
        self._on_room = on_room  # called when there is room for chunks again
        self._changed = asyncio.Event()  # set when there is something to read
        self._drained = asyncio.Event()  # set when something was read
        self._abandoned = False

    @property
    def terminal(self) -> Terminal | None:
        """The terminal message, once it was put."""
        return self._terminal

    @property
    def abandoned(self) -> bool:
        """Whether the reader is gone."""
        return self._abandoned

    @property
    def has_room(self) -> bool:
        """Whether another chunk may be begun."""
        ahead = self._last_chunk - self._acked
        behind = self._acked >= 0 and self._unacked_chunks is not None and ahead >= self._unacked_chunks
        return self._abandoned or (self._bytes < self._limit_bytes and not behind)

    def statistics(self) -> OutboxStatistics:
        """What waits now."""
        chunks = len(self._waiting) - self._messages
        return OutboxStatistics(
            chunks, self._bytes, self._messages, self._most_bytes, self._put, self._terminal is not None
        )

    def put(self, output: Output) -> bool:
        """Append an output; False (and nothing happens) after the terminal message or `abandon`."""
        if self._terminal is not None or self._abandoned:
            return False
        if isinstance(output, Done | Failed):
            self._terminal = output
            self._drained.set()
        if isinstance(output, ChunkOutput):
            self._last_chunk = output.transport_index
            self._bytes += output.size
            self._most_bytes = max(self._most_bytes, self._bytes)
        else:
            self._messages += 1
        self._waiting.append(output)
        self._put += 1
        self._changed.set()
        return True

    def ack(self, transport_index: int) -> None:
        """The reader has everything up to this chunk; of one that was not put yet this says nothing."""
        if transport_index > self._last_chunk:
            return
        had_room = self.has_room
        self._acked = max(self._acked, transport_index)
        if not had_room and self.has_room:
            self._on_room()

    async def room_for_message(self) -> None:
        """Wait until fewer messages than the limit wait, or none is taken any more."""
        while self._messages >= self._limit_messages and self._terminal is None and not self._abandoned:
            self._drained.clear()
            await self._drained.wait()

    def abandon(self) -> None:
        """The reader is gone: drop what waits and whatever comes. Idempotent."""
        self._abandoned = True
        self._waiting.clear()
        self._bytes = self._messages = 0
        self._changed.set()
        self._drained.set()
        self._on_room()

    async def __aiter__(self) -> AsyncIterator[Output]:
        while not self._abandoned:
            while self._waiting:
                yield self._take()
            if self._terminal is not None:
                return
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> Output:
        output, had_room = self._waiting.popleft(), self.has_room
        if isinstance(output, ChunkOutput):
            self._bytes -= output.size
        else:
            self._messages -= 1
        self._drained.set()
        if not had_room:
            self._on_room()
        return output
