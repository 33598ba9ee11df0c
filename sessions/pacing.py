"""Keeping to media time: when the next chunk is due, and how long its viewer can still play."""

from __future__ import annotations

from sessions.spec import Pacing


class Pacer:
    """Follows a viewer who begins to play when the first chunk arrives, and stalls when the next one is late.

    All times are in seconds of the caller's clock; `chunk_s` is the media length of a chunk.
    """

    def __init__(self, pacing: Pacing, chunk_s: float) -> None:
        self._paced = pacing.to_media_time
        self._lead = chunk_s if pacing.lead_s is None else pacing.lead_s
        self._most_lag = pacing.max_lag_s
        self._origin: float | None = None  # when the viewer plays media time 0
        self._next = 0.0  # media time at which the next chunk starts

    def due(self, now: float) -> float:
        """When the next chunk may begin."""
        if self._origin is None or not self._paced:
            return now
        return self._origin + self._next - self._lead

    def slack(self, now: float) -> float | None:
        """How long the viewer can still play; negative once it stalls, None for one who takes what comes."""
        if not self._paced:
            return None
        return 0.0 if self._origin is None else self._origin + self._next - now

    def shown(self, now: float, media_time: float, length: float) -> float:
        """A chunk has left; a late one shifts the viewer's clock by what it was late beyond the lag.

        Answers for how long the viewer had nothing to play.
        """
        if self._origin is None:
            self._origin = now - media_time
        late = now - (self._origin + media_time)
        self._origin += max(0.0, late - self._most_lag)
        self._next = media_time + length
        return max(0.0, late) if self._paced else 0.0

    def restart(self) -> None:
        """Media time starts again, with the next chunk."""
        self._origin = None
        self._next = 0.0
