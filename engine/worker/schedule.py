"""Whose turn it is: bookkeeping without threads, so that every rule can be seen in a test."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.worker.messages import JobRequest, Run

LATEST_S: Final = 2.0
"""A viewer who waits in vain pushes others back by at most this long, however late he is."""


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way; `arrived` is in seconds of the worker's clock."""

    request: JobRequest
    arrived: float
    cancelled: bool = False

    @property
    def world(self) -> str:
        """The world's id."""
        return self.request.world


@dataclass(slots=True)
class _Line:
    """The jobs of one world, in order; `busy` while one of them runs."""

    jobs: deque[Job] = field(default_factory=deque)
    busy: bool = False
    served: float = float("-inf")


class Schedule:
    """One line per world, served in order; between lines, what the earliest viewer needs.

    Opens, resets and closes go before chunks, in their order of arrival. A chunk is due when its viewer has
    played all that he has; without a slack it is due at once, and a world that was just served counts as
    having arrived then, so that worlds take turns.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def add(self, job: Job) -> None:
        """Put a job at the end of its world's line."""
        self._lines.setdefault(job.world, _Line()).jobs.append(job)

    def take(self, now: float) -> Job | None:
        """The next job, whose world is busy from now on; None where every world is idle or busy."""
        line = min(self._waiting(), key=_urgency, default=None)
        if line is None:
            return None
        line.busy, line.served = True, now
        return line.jobs.popleft()

    def release(self, world: str, *, gone: bool = False) -> None:
        """The world's job has ended: its next one may run. `gone` where the world exists no more."""
        line = self._lines[world]
        assert line.busy, f"world {world} was not busy"
        line.busy = False
        if gone and not line.jobs:
            del self._lines[world]

    def withdraw(self, job: Job) -> bool:
        """Take a job out that has not begun; False where it has."""
        line = self._lines.get(job.world)
        if line is None or job not in line.jobs:
            return False
        line.jobs.remove(job)
        return True

    def depth(self) -> int:
        """Jobs that wait."""
        return sum(len(line.jobs) for line in self._lines.values())

    def _waiting(self) -> Iterator[_Line]:
        return (line for line in self._lines.values() if line.jobs and not line.busy)


def _urgency(line: _Line) -> tuple[bool, float, float]:
    job = line.jobs[0]
    if not isinstance(job.request, Run):
        return False, job.arrived, job.arrived
    slack = max(job.request.slack_s or 0.0, -LATEST_S)
    return True, max(job.arrived, line.served) + slack, line.served
