"""Several who measure, as one."""

from __future__ import annotations

from sessions.observer import ChunkTimes, Observer
from sessions.state import SessionState


class Observers(Observer):
    """Tells each of them, in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def session_moved(self, before: SessionState | None, after: SessionState) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.session_moved(before, after)

    def session_closed(self, reason: str) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.session_closed(reason)

    def chunk_committed(self, times: ChunkTimes) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.chunk_committed(times)

    def chunk_aborted(self, code: str) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.chunk_aborted(code)

    def first_chunk(self, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.first_chunk(seconds)

    def control_to_frame(self, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.control_to_frame(seconds)

    def event_taken(self, outcome: str) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.event_taken(outcome)

    def line_moved(self, depth: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.line_moved(depth)

    def line_left(self, outcome: str, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.line_left(outcome, seconds)

    def pruned(self, kind: str, size: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.pruned(kind, size)

    def underrun(self, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.underrun(seconds)

    def chunks_dropped(self, reason: str, count: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.chunks_dropped(reason, count)
