"""What one owner may have: sessions at once, events per second, and of both in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sessions.clock import Clock
from sessions.errors import QuotaExceeded, QuotaSpent, RateLimited
from sessions.usage import Usage


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of each owner; None: without bound. Whoever shows no key is one owner, too."""

    sessions: int | None = None  # at once: in memory, on their way there, or in line; suspended ones are free
    events_per_s: float | None = None  # a second's worth may come at once
    total_sessions: int | None = None  # ever made, forks included
    total_events: int | None = None  # ever accepted


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Meter:
    """Holds every owner to its quotas. `usage` remembers the totals."""

    def __init__(self, quotas: Quotas, clock: Clock, usage: Usage) -> None:
        self._quotas = quotas
        self._clock = clock
        self._usage = usage
        self._buckets: dict[str | None, _Bucket] = {}
        self._entering: Counter[str | None] = Counter()

    @contextmanager
    def entering(self, owner: str | None, in_memory: int, new: bool = True) -> Iterator[None]:
        """While a session comes that joins `in_memory` others of its owner; a `new` one counts for ever.

        Raises `QuotaExceeded`, `QuotaSpent`.
        """
        most, total = self._quotas.sessions, self._quotas.total_sessions
        coming = self._entering[owner]
        if most is not None and in_memory + coming >= most:
            raise QuotaExceeded(f"{in_memory + coming} sessions are open, at most {most} may be: close one")
        made = self._usage.sessions(owner) + coming
        if new and total is not None and made >= total:
            raise QuotaSpent(f"{made} sessions were made, at most {total} may ever be")
        self._entering[owner] += 1
        try:
            yield
            if new:
                self._usage.add_session(owner)
        finally:
            self._entering[owner] -= 1

    def check_event(self, owner: str | None) -> None:
        """An event comes. Raises `RateLimited` with when the next may, `QuotaSpent`."""
        total = self._quotas.total_events
        if total is not None and self._usage.events(owner) >= total:
            raise QuotaSpent(f"{self._usage.events(owner)} events were accepted, at most {total} may ever be")
        rate = self._quotas.events_per_s
        if rate is not None:
            self._take(owner, rate)

    def event_accepted(self, owner: str | None) -> None:
        """It counts for ever."""
        if self._quotas.total_events is not None:
            self._usage.add_event(owner)

    def _take(self, owner: str | None, rate: float) -> None:
        most, now = max(1.0, rate), self._clock.now()
        bucket = self._buckets.setdefault(owner, _Bucket(most, now))
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.tokens < 1:
            wait = (1 - bucket.tokens) / rate
            message = f"more than {rate:g} events per second came: the next may in {wait:.2g} seconds"
            raise RateLimited(message, retry_after_s=wait)
        bucket.tokens -= 1
