"""What one owner may have: sessions at once, events per second, and of both in all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
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
        self._coming: defaultdict[str | None, list[str]] = defaultdict(list)  # session ids
        self._new: Counter[str | None] = Counter()  # of them, those that are being made
        self._accepting: Counter[str | None] = Counter()  # events that are being written

    @contextmanager
    def entering(
        self, owner: str | None, session_id: str, in_memory: Collection[str], new: bool = True
    ) -> Iterator[None]:
        """While a session comes; `in_memory` are the ids of its owner's that are there. A `new` one counts
        for ever. One that comes twice at once, or is in memory before this ends, is one all the same.

        Raises `QuotaExceeded`, `QuotaSpent`.
        """
        most, total = self._quotas.sessions, self._quotas.total_sessions
        coming = self._coming[owner]
        others = {*in_memory, *coming} - {session_id}
        if most is not None and len(others) >= most:
            raise QuotaExceeded(f"{len(others)} sessions are open, at most {most} may be: close one")
        made = self._usage.sessions(owner) + self._new[owner]
        if new and total is not None and made >= total:
            raise QuotaSpent(f"{made} sessions were made, at most {total} may ever be")
        coming.append(session_id)
        self._new[owner] += new
        try:
            yield
            if new:
                self._usage.add_session(owner)
        finally:
            coming.remove(session_id)
            self._new[owner] -= new

    def check_event(self, owner: str | None) -> None:
        """An event comes. Raises `RateLimited` with when the next may."""
        rate = self._quotas.events_per_s
        if rate is not None:
            self._take(owner, rate)

    @contextmanager
    def accepting(self, owner: str | None) -> Iterator[None]:
        """While a new event is accepted, which counts for ever. Raises `QuotaSpent`."""
        total = self._quotas.total_events
        if total is None:
            yield
            return
        accepted = self._usage.events(owner) + self._accepting[owner]
        if accepted >= total:
            raise QuotaSpent(f"{accepted} events were accepted, at most {total} may ever be")
        self._accepting[owner] += 1
        try:
            yield
            self._usage.add_event(owner)
        finally:
            self._accepting[owner] -= 1

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
