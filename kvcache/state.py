"""What the facts amount to, moved on by one fact at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from kvcache.facts import (
    BuildBegan,
    Carried,
    CleanupFailed,
    CloseBegan,
    Closed,
    ClosedSummary,
    Fact,
    Invalidated,
    Leased,
    Opened,
    Published,
    Released,
    Returned,
    Totals,
)


class OwnerPhase(StrEnum):
    """Where an owner stands; one that is closed is not there."""

    OPEN = "open"
    CLOSING = "closing"
    TOMBSTONE = "tombstone"


class EntryPhase(StrEnum):
    """Where one generation of a key stands."""

    BUILDING = "building"
    PUBLISHED = "published"
    HIDDEN = "hidden"  # invalidated or superseded, and not released yet


@dataclass(slots=True)
class Entry:
    """One generation of a key."""

    key: str
    identity: str
    generation: int
    phase: EntryPhase = EntryPhase.BUILDING
    bytes: int = 0
    leases: dict[int, str] = field(default_factory=dict)  # lease -> holder
    reason: str = ""


@dataclass(slots=True)
class OwnerState:
    """What one owner holds. `building` and `readable` hold at most one generation of each key."""

    life: int
    phase: OwnerPhase = OwnerPhase.OPEN
    cause: str = ""
    entries: dict[int, Entry] = field(default_factory=dict)
    building: dict[str, int] = field(default_factory=dict)
    readable: dict[str, int] = field(default_factory=dict)
    live_bytes: int = 0
    builds: int = 0
    released_bytes: int = 0
    cleanup_failures: int = 0
    newest_generation: int = 0
    newest_lease: int = 0

    def hide(self, generation: int, reason: str) -> None:
        """Take a value from its readers; one that never got published is gone with that."""
        entry = self.entries[generation]
        if entry.phase is EntryPhase.BUILDING:
            del self.entries[generation]
            del self.building[entry.key]
        elif entry.phase is EntryPhase.PUBLISHED:
            del self.readable[entry.key]
            entry.phase, entry.reason = EntryPhase.HIDDEN, reason


@dataclass(slots=True)
class State:
    """All owners that are not closed, and what the closed ones came to."""

    owners: dict[str, OwnerState] = field(default_factory=dict)
    closed: int = 0
    builds: int = 0
    released_bytes: int = 0
    cleanup_failures: int = 0
    newest_generation: int = 0
    newest_lease: int = 0
    newest_life: int = 0
    live_bytes: int = 0

    def apply(self, fact: Fact) -> None:
        """Move on by one fact that the rules allow."""
        if isinstance(fact, Totals | ClosedSummary):
            self._add(fact)
            return
        if isinstance(fact, Opened):
            self.owners[fact.owner] = OwnerState(fact.life)
            self.newest_life = max(self.newest_life, fact.life)
            return
        owner = self.owners[fact.owner]
        match fact:
            case CloseBegan():
                owner.phase, owner.cause = OwnerPhase.CLOSING, ""
                for generation in list(owner.entries):
                    owner.hide(generation, "closed")
            case CleanupFailed(cause=cause):
                owner.phase, owner.cause = OwnerPhase.TOMBSTONE, cause
                owner.cleanup_failures += 1
            case Closed():
                del self.owners[fact.owner]
                self._add(summary(fact.owner, owner))
            case BuildBegan():
                self._begin(fact, owner)
            case Carried():
                owner.builds, owner.released_bytes = fact.builds, fact.released_bytes
                owner.cleanup_failures = fact.cleanup_failures
                owner.newest_generation, owner.newest_lease = fact.newest_generation, fact.newest_lease
                self._rise(fact.newest_generation, fact.newest_lease)
            case Published():
                self._publish(fact, owner)
            case Invalidated(generation=generation, reason=reason):
                owner.hide(generation, reason)
            case Leased(generation=generation, lease=lease, holder=holder):
                owner.entries[generation].leases[lease] = holder
                owner.newest_lease = max(owner.newest_lease, lease)
                self._rise(0, lease)
            case Returned(generation=generation, lease=lease):
                del owner.entries[generation].leases[lease]
            case Released(generation=generation, bytes=size):
                del owner.entries[generation]
                owner.live_bytes -= size
                owner.released_bytes += size
                self.live_bytes -= size
            case _:
                assert_never(fact)

    def _begin(self, fact: BuildBegan, owner: OwnerState) -> None:
        if (older := owner.building.get(fact.key)) is not None:
            owner.hide(older, "superseded")
        value = owner.readable.get(fact.key)
        if value is not None and owner.entries[value].identity != fact.identity:
            owner.hide(value, "another identity")
        owner.entries[fact.generation] = Entry(fact.key, fact.identity, fact.generation)
        owner.building[fact.key] = fact.generation
        owner.builds += 1
        owner.newest_generation = fact.generation
        self._rise(fact.generation, 0)

    def _publish(self, fact: Published, owner: OwnerState) -> None:
        if (older := owner.readable.get(fact.key)) is not None:
            owner.hide(older, "superseded")
        entry = owner.entries[fact.generation]
        entry.phase, entry.bytes = EntryPhase.PUBLISHED, fact.bytes
        del owner.building[fact.key]
        owner.readable[fact.key] = fact.generation
        owner.live_bytes += fact.bytes
        self.live_bytes += fact.bytes

    def _add(self, fact: Totals | ClosedSummary) -> None:
        if isinstance(fact, Totals):
            self.closed += fact.owners
            self._rise(fact.newest_generation, fact.newest_lease)
            self.newest_life = max(self.newest_life, fact.newest_life)
        else:
            self.closed += 1
        self.builds += fact.builds
        self.released_bytes += fact.released_bytes
        self.cleanup_failures += fact.cleanup_failures

    def _rise(self, generation: int, lease: int) -> None:
        self.newest_generation = max(self.newest_generation, generation)
        self.newest_lease = max(self.newest_lease, lease)


def summary(name: str, owner: OwnerState) -> ClosedSummary:
    """What is kept of an owner that closes."""
    return ClosedSummary(name, owner.builds, owner.released_bytes, owner.cleanup_failures)
