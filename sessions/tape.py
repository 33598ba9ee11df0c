"""The last chunks that were shown, for a client that comes back and for watchers."""

from __future__ import annotations

from collections import deque

from sessions.outputs import ChunkOutput


class Tape:
    """Holds up to `limit_bytes` of media of the current epoch, the newest in any case.

    `complete_from` is the transport index from which on nothing is missing.
    """

    def __init__(self, limit_bytes: int, complete_from: int = 0) -> None:
        self._limit = limit_bytes
        self._outputs: deque[ChunkOutput] = deque()
        self._bytes = 0
        self.complete_from = complete_from

    @property
    def last(self) -> ChunkOutput | None:
        """The newest chunk."""
        return self._outputs[-1] if self._outputs else None

    def add(self, output: ChunkOutput) -> None:
        """The next chunk; old ones make room for it."""
        self._outputs.append(output)
        self._bytes += output.size
        while self._bytes > self._limit and len(self._outputs) > 1:
            dropped = self._outputs.popleft()
            self._bytes -= dropped.size
            self.complete_from = dropped.transport_index + 1

    def prepend(self, outputs: list[ChunkOutput]) -> None:
        """Chunks that were shown before those that are here, found elsewhere."""
        if outputs:
            self._outputs.extendleft(reversed(outputs))
            self._bytes += sum(output.size for output in outputs)
            self.complete_from = outputs[0].transport_index

    def since(self, last: int) -> list[ChunkOutput]:
        """What comes behind the transport index `last`, as far as it is here."""
        return [output for output in self._outputs if output.transport_index > last]

    def new_epoch(self) -> None:
        """What was shown before is of no use any more, so nothing is missing."""
        self._outputs.clear()
        self._bytes = 0
        self.complete_from = 0
