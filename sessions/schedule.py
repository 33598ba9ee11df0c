"""When the next chunk of a stream may begin, and with which events: one class for each mode."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Protocol

from sessions.outputs import ChunkOutput
from sessions.pacing import Pacer
from sessions.protocol import SessionProtocol
from sessions.spec import Mode, SessionSpec


class Schedule(Protocol):
    """Decides when the next chunk may begin, and with which events."""

    def due(self, now: float) -> float | None:
        """When it may begin; None: not before something happens."""

    def take(self) -> Collection[int] | None:
        """The events of the chunk that begins now (None: all pending)."""

    def slack(self, now: float) -> float | None:
        """How long the viewer can still play."""

    def shown(self, now: float, output: ChunkOutput) -> float:
        """A chunk has left; for how long its viewer had nothing to play."""

    def taken(self, event_id: int) -> None:
        """An event was accepted."""

    def restart(self, resume: bool) -> None:
        """The session was reset."""


class ContinuousSchedule:
    """Chunk after chunk, paced to media time; waits while the session has no prompt."""

    def __init__(self, protocol: SessionProtocol, pacer: Pacer) -> None:
        self._protocol = protocol
        self._pacer = pacer

    def due(self, now: float) -> float | None:
        """When the viewer has no more than the lead left to play."""
        return self._pacer.due(now) if self._protocol.can_begin() else None

    def take(self) -> None:
        """All pending events."""

    def slack(self, now: float) -> float | None:
        """How long the viewer can still play."""
        return self._pacer.slack(now)

    def shown(self, now: float, output: ChunkOutput) -> float:
        """Media time goes on."""
        return self._pacer.shown(now, output.media_time, len(output.media.frames) / output.media.fps)

    def taken(self, event_id: int) -> None:
        """It waits for the next chunk like any other."""

    def restart(self, resume: bool) -> None:
        """Media time starts again."""
        self._pacer.restart()


class SteppedSchedule:
    """One chunk for each event, and one for each that the opening script still has; a cancelled one is not
    owed again, and a script goes on behind it with the next event.

    The chunk owed to an event takes every pending event up to it; events beyond it get their own.
    """

    def __init__(self, protocol: SessionProtocol) -> None:
        self._protocol = protocol
        self._owed: deque[int] = deque(protocol.pending)
        self._script_waits = False

    def due(self, now: float) -> float | None:
        """At once, where an owed chunk can begin."""
        return now if self._next() is not None or self._scripted() else None

    def take(self) -> Collection[int]:
        """The events up to the one that the chunk is owed to; what was owed before it is served with it."""
        position = self._next()
        if position is None:
            assert self._scripted(), "a chunk is due before it is taken"
            self._script_waits = True  # until it is shown
            return ()
        event_id = self._owed[position]
        for _ in range(position + 1):
            self._owed.popleft()
        return self._until(event_id)

    def slack(self, now: float) -> float | None:
        """Worlds take turns."""
        return None

    def shown(self, now: float, output: ChunkOutput) -> float:
        """The script goes on."""
        self._script_waits = False
        return 0.0

    def taken(self, event_id: int) -> None:
        """Owe it a chunk, behind which a script goes on that was held."""
        self._owed.append(event_id)

    def restart(self, resume: bool) -> None:
        """What is pending is owed: nothing, behind a reset. A rewind holds the script, too."""
        self._owed = deque(self._protocol.pending)
        self._script_waits = not resume

    def _next(self) -> int | None:
        """The position of the first owed chunk that can begin."""
        pending = self._protocol.pending
        for position, event_id in enumerate(self._owed):
            if event_id in pending and self._protocol.can_begin(self._until(event_id)):
                return position
        return None

    def _scripted(self) -> bool:
        return not self._script_waits and self._protocol.scripted and self._protocol.can_begin(())

    def _until(self, event_id: int) -> list[int]:
        return [pending for pending in self._protocol.pending if pending <= event_id]


def make_schedule(spec: SessionSpec, protocol: SessionProtocol, chunk_s: float) -> Schedule:
    """The schedule of a session's mode; `chunk_s` is the media length of a chunk."""
    if spec.mode is Mode.STEPPED:
        return SteppedSchedule(protocol)
    return ContinuousSchedule(protocol, Pacer(spec.pacing, chunk_s))
