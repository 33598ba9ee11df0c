"""A simulated viewer: what the arrival of chunks means to someone who watches them at their rate.

Pure: times come in, nothing is read from a clock. The interval lies between the last bytes of two chunks; a
chunk is steady once the attention window is full; RTF is wall seconds per second of video; an underrun is a
moment at which the viewer has nothing left to show.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """What one chunk was like. Seconds; `interval_s` is None for the first chunk."""

    interval_s: float | None
    media_s: float
    steady: bool
    attained: bool  # no slower than its media time, or not due yet on the stream's first schedule
    stalled_s: float  # how long the viewer stood still before it; 0 without an underrun

    @property
    def rtf(self) -> float | None:
        """Wall seconds per second of video."""
        return None if self.interval_s is None else self.interval_s / self.media_s


class Viewer:
    """Starts to play once `start_chunks` chunks have arrived, and at once again after an underrun."""

    def __init__(self, steady_from: int, start_chunks: int = 1) -> None:
        self._steady_from = steady_from
        self._start_chunks = start_chunks
        self._count = 0
        self._last: float | None = None
        self._received_s = 0.0  # of media
        self._first_schedule: float | None = None  # when media time 0 was shown
        self._schedule: float | None = None  # the same, moved on by every underrun

    def take(self, arrived: float, frames: int, fps: int) -> Arrival:
        """A chunk of so many frames arrived."""
        media_s = frames / fps
        due = None if self._schedule is None else self._schedule + self._received_s
        stalled_s = 0.0 if due is None else max(0.0, arrived - due)
        interval_s = None if self._last is None else arrived - self._last
        on_schedule = self._first_schedule is None or arrived <= self._first_schedule + self._received_s
        attained = interval_s is None or interval_s <= media_s or on_schedule
        steady = self._count >= self._steady_from
        self._count, self._last, self._received_s = self._count + 1, arrived, self._received_s + media_s
        if self._schedule is None and self._count == self._start_chunks:
            self._schedule = self._first_schedule = arrived
        elif self._schedule is not None:
            self._schedule += stalled_s
        return Arrival(interval_s, media_s, steady, attained, stalled_s)
