"""What the session layer tells whoever measures it. Durations are in the unit of their name."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api import StageTimes
from sessions.state import SessionState


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """One committed chunk; `total_ms` runs from its tick to its commit."""

    stages: StageTimes
    commit_ms: float
    total_ms: float

    @property
    def overhead_ms(self) -> float:
        """What the service added: the total minus all stages. The commit runs beside the encoder."""
        stages = self.stages
        computed = stages.queue_ms + stages.denoise_ms + stages.decode_ms
        return self.total_ms - computed - max(stages.encode_ms, self.commit_ms)


class Observer:
    """Hears of everything and does nothing: override what you need. Called in the event loop, so be quick."""

    def session_moved(self, before: SessionState | None, after: SessionState) -> None:
        """A session changed its state; `before` is None when it was opened."""

    def session_closed(self, reason: str) -> None:
        """A session is closed for good; the reason is one of a few words, fit for a metric's label."""

    def chunk_committed(self, times: ChunkTimes) -> None:
        """A chunk is part of its world."""

    def chunk_aborted(self, code: str) -> None:
        """A chunk was rolled back; the code of the error says why."""

    def first_chunk(self, seconds: float) -> None:
        """From asking for a session to putting its first chunk into the outbox."""

    def control_to_frame(self, seconds: float) -> None:
        """From an event's arrival to putting the first chunk that shows it into the outbox."""

    def event_taken(self, outcome: str) -> None:
        """An event was `accepted`, a `duplicate`, or refused: then the code of the error."""

    def line_moved(self, depth: int) -> None:
        """So many clients wait for room."""

    def line_left(self, outcome: str, seconds: float) -> None:
        """Who asked for room and there was none at once was `admitted` after waiting so long; or was
        `refused`, `timeout`, `left` or `failed`.
        """

    def pruned(self, kind: str, size: int) -> None:
        """A `snapshot` or (part of) a `recording`, of so many bytes, was let go of to stay within bounds."""

    def underrun(self, seconds: float) -> None:
        """The viewer of a stream that keeps to media time had nothing to play for so long."""

    def chunks_dropped(self, reason: str, count: int) -> None:
        """So many chunks did not reach who played (`left`) or watched (`watcher_too_slow`)."""
