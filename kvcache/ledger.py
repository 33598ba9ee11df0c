"""The ledger: an append-only sequence of facts that governs every cache and session resource.

Code asks the ledger, acts, and records. At any moment `fold(ledger.facts())` equals `ledger.live`, and
`ledger.live_bytes` equals what the allocators hold. It imports no torch and may be read from any thread.

It stays small: a closed owner keeps one summary (the newest `SUMMARIES` of them by name, the others as
totals), and an owner that has long been open keeps only the facts that its present state follows from.
"""

from __future__ import annotations

from collections import deque
from threading import RLock

from kvcache.errors import Superseded
from kvcache.facts import (
    BuildBegan,
    CleanupFailed,
    CloseBegan,
    Closed,
    ClosedSummary,
    Fact,
    Invalidated,
    Leased,
    Opened,
    OwnerFact,
    Published,
    Released,
    Returned,
    Totals,
)
from kvcache.fold import condensed, fold
from kvcache.rules import check
from kvcache.state import Entry, EntryPhase, OwnerPhase, State, summary

SUMMARIES = 256
"""Closed owners that are remembered by name."""
FACTS_PER_OWNER = 64
"""Facts of one owner, beyond twice the fewest possible, that bring about a compaction."""


class Ledger:
    """Facts, the rules that admit them, and their live fold."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._live = State()
        self._totals = Totals(0, 0, 0, 0, 0, 0, 0)
        self._summaries: deque[ClosedSummary] = deque()
        self._facts: dict[str, list[OwnerFact]] = {}
        self._limits: dict[str, int] = {}

    # -- owners --------------------------------------------------------------------------------------------

    def can_open(self, owner: str) -> bool:
        """Whether the id is free."""
        return owner not in self._live.owners

    def open(self, owner: str) -> int:
        """Open an owner; the number of this life of its id. Raises `OwnerExists` for an open or closing
        owner, `OwnerTombstoned` where its cleanup failed.
        """
        with self._lock:
            life = self._live.newest_life + 1
            self._append(Opened(owner, life))
            return life

    def life(self, owner: str) -> int | None:
        """The number of the owner's present life; `None` where it is closed."""
        state = self._live.owners.get(owner)
        return None if state is None else state.life

    def tombstone(self, owner: str) -> str | None:
        """Why the owner's cleanup failed; `None` where it did not."""
        state = self._live.owners.get(owner)
        return state.cause if state is not None and state.phase is OwnerPhase.TOMBSTONE else None

    def begin_close(self, owner: str) -> bool:
        """Hide everything the owner has. May be repeated; False where nothing is left to close."""
        with self._lock:
            state = self._live.owners.get(owner)
            if state is None:
                return False
            if state.phase is not OwnerPhase.CLOSING:
                self._append(CloseBegan(owner))
            return True

    def cleanup_failed(self, owner: str, cause: str) -> None:
        """Leave a tombstone; `begin_close` begins the retry."""
        self._append(CleanupFailed(owner, cause))

    def close(self, owner: str) -> None:
        """Free the id. Raises `StillHeld` before everything is released; may be repeated."""
        with self._lock:
            if owner in self._live.owners:
                self._append(Closed(owner))

    # -- builds --------------------------------------------------------------------------------------------

    def begin(self, owner: str, key: str, identity: str) -> int:
        """Begin a build and learn its generation. Supersedes older builds of `key`, and hides a value of
        another identity. Raises `OwnerClosed`, `OwnerTombstoned`.
        """
        with self._lock:
            generation = self._live.newest_generation + 1
            self._append(BuildBegan(owner, key, identity, generation))
            return generation

    def can_publish(self, owner: str, key: str, generation: int) -> bool:
        """Whether this build is still the newest of `key` in an open owner."""
        state = self._live.owners.get(owner)
        return state is not None and state.building.get(key) == generation

    def publish(self, owner: str, key: str, generation: int, size: int) -> None:
        """Make a whole build readable; `size` is in bytes. Raises `Superseded` where it was overtaken."""
        with self._lock:
            if owner not in self._live.owners:
                raise Superseded(f"{key!r}: {owner!r} is closed")
            self._append(Published(owner, key, generation, size))

    def invalidate(self, owner: str, key: str, generation: int, reason: str) -> bool:
        """End a build, or hide its value. May be repeated; False where that happened before."""
        with self._lock:
            entry = self._entry(owner, generation)
            if entry is None or entry.phase is EntryPhase.HIDDEN:
                return False
            self._append(Invalidated(owner, key, generation, reason))
            return True

    # -- readers -------------------------------------------------------------------------------------------

    def readable(self, owner: str, key: str) -> Entry | None:
        """The published value of `key`; read it, do not change it."""
        state = self._live.owners.get(owner)
        if state is None or (generation := state.readable.get(key)) is None:
            return None
        return state.entries[generation]

    def lease(self, owner: str, key: str, generation: int, holder: str) -> int:
        """Hold a published value against release. Raises `Superseded` where it is hidden."""
        with self._lock:
            lease = self._live.newest_lease + 1
            self._append(Leased(owner, key, generation, lease, holder))
            return lease

    def give_back(self, owner: str, key: str, generation: int, lease: int) -> bool:
        """End a lease. May be repeated; False where it ended before."""
        with self._lock:
            entry = self._entry(owner, generation)
            if entry is None or lease not in entry.leases:
                return False
            self._append(Returned(owner, key, generation, lease))
            return True

    def can_release(self, owner: str, generation: int) -> bool:
        """Whether the value is hidden and no reader holds it."""
        entry = self._entry(owner, generation)
        return entry is not None and entry.phase is EntryPhase.HIDDEN and not entry.leases

    def released(self, owner: str, key: str, generation: int) -> bool:
        """Record that the memory is back. May be repeated; False where that happened before. Raises
        `StillLeased`, and `LedgerError` for a value that is still readable.
        """
        with self._lock:
            entry = self._entry(owner, generation)
            if entry is None:
                return False
            self._append(Released(owner, key, generation, entry.bytes))
            return True

    # -- accounts ------------------------------------------------------------------------------------------

    @property
    def live(self) -> State:
        """The live state; read it, do not change it."""
        return self._live

    @property
    def live_bytes(self) -> int:
        """Bytes that are published and not released."""
        return self._live.live_bytes

    def facts(self, owner: str | None = None) -> tuple[Fact, ...]:
        """The facts, those of one owner or all; all of them fold to `live`."""
        with self._lock:
            if owner is not None:
                closed = tuple(item for item in self._summaries if item.owner == owner)
                return closed + tuple(self._facts.get(owner, ()))
            rest = (fact for facts in self._facts.values() for fact in facts)
            return (self._totals, *self._summaries, *rest)

    def is_consistent(self) -> bool:
        """Whether the facts fold to the live state: asked of a running service, asserted in tests."""
        with self._lock:
            return fold(self.facts()) == self._live

    # -- inside --------------------------------------------------------------------------------------------

    def _entry(self, owner: str, generation: int) -> Entry | None:
        state = self._live.owners.get(owner)
        return state.entries.get(generation) if state is not None else None

    def _append(self, fact: OwnerFact) -> None:
        with self._lock:
            check(self._live, fact)
            state = self._live.owners.get(fact.owner)
            self._live.apply(fact)
            if isinstance(fact, Closed):
                assert state is not None
                self._bury(summary(fact.owner, state))
                return
            facts = self._facts.setdefault(fact.owner, [])
            facts.append(fact)
            if len(facts) > self._limits.get(fact.owner, FACTS_PER_OWNER):
                self._facts[fact.owner] = condensed(fact.owner, self._live.owners[fact.owner])
                self._limits[fact.owner] = 2 * len(self._facts[fact.owner]) + FACTS_PER_OWNER

    def _bury(self, closed: ClosedSummary) -> None:
        self._facts.pop(closed.owner)
        self._limits.pop(closed.owner, None)
        self._summaries.append(closed)
        totals, oldest = self._totals, None
        if len(self._summaries) > SUMMARIES:
            oldest = self._summaries.popleft()
        self._totals = Totals(
            owners=totals.owners + (oldest is not None),
            builds=totals.builds + (oldest.builds if oldest else 0),
            released_bytes=totals.released_bytes + (oldest.released_bytes if oldest else 0),
            cleanup_failures=totals.cleanup_failures + (oldest.cleanup_failures if oldest else 0),
            newest_generation=self._live.newest_generation,
            newest_lease=self._live.newest_lease,
            newest_life=self._live.newest_life,
        )
