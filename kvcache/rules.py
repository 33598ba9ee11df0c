"""Which fact may come next: the rules of the ledger."""

from __future__ import annotations

from kvcache.errors import (
    LedgerError,
    OwnerClosed,
    OwnerExists,
    OwnerTombstoned,
    StillHeld,
    StillLeased,
    Superseded,
)
from kvcache.facts import (
    BuildBegan,
    Carried,
    CleanupFailed,
    CloseBegan,
    Closed,
    Invalidated,
    Leased,
    Opened,
    OwnerFact,
    Published,
    Released,
    Returned,
)
from kvcache.state import EntryPhase, OwnerPhase, OwnerState, State


def check(state: State, fact: OwnerFact) -> None:
    """Raise a `LedgerError` where the rules do not allow `fact` now."""
    owner = state.owners.get(fact.owner)
    if isinstance(fact, Opened):
        _check_open(fact, owner)
        return
    if owner is None:
        raise OwnerClosed(f"no open owner {fact.owner!r}")
    match fact:
        case CloseBegan():
            if owner.phase is OwnerPhase.CLOSING:
                raise LedgerError(f"{fact.owner!r} is closing already")
        case CleanupFailed():
            _check_closing(fact.owner, owner)
        case Closed():
            _check_closing(fact.owner, owner)
            if owner.entries:
                raise StillHeld(f"{fact.owner!r} holds {len(owner.entries)} values that are not released")
        case BuildBegan():
            _check_begin(fact, owner)
        case Carried():
            pass
        case _:
            _check_entry(fact, owner)


def _check_open(fact: Opened, owner: OwnerState | None) -> None:
    if owner is None:
        return
    if owner.phase is OwnerPhase.TOMBSTONE:
        raise OwnerTombstoned(f"{fact.owner!r} is blocked: its cleanup failed ({owner.cause})")
    raise OwnerExists(f"{fact.owner!r} is {owner.phase}")


def _check_closing(name: str, owner: OwnerState) -> None:
    if owner.phase is not OwnerPhase.CLOSING:
        raise LedgerError(f"{name!r} is {owner.phase}, not closing")


def _check_begin(fact: BuildBegan, owner: OwnerState) -> None:
    if owner.phase is OwnerPhase.TOMBSTONE:
        raise OwnerTombstoned(f"{fact.owner!r} is blocked: its cleanup failed ({owner.cause})")
    if owner.phase is not OwnerPhase.OPEN:
        raise OwnerClosed(f"{fact.owner!r} is {owner.phase}")
    if fact.generation <= owner.newest_generation:
        raise LedgerError(f"generation {fact.generation} is not above {owner.newest_generation}")


def _check_entry(fact: Published | Invalidated | Leased | Returned | Released, owner: OwnerState) -> None:
    entry = owner.entries.get(fact.generation)
    if entry is None or entry.key != fact.key:
        raise Superseded(f"{fact.key!r}: generation {fact.generation} was overtaken or released")
    match fact:
        case Published():
            if entry.phase is not EntryPhase.BUILDING:
                raise Superseded(f"{fact.key!r}: generation {fact.generation} is {entry.phase}")
            if fact.bytes < 0:
                raise LedgerError(f"{fact.key!r}: bytes={fact.bytes}, must be at least 0")
        case Invalidated():
            if entry.phase is EntryPhase.HIDDEN:
                raise LedgerError(f"{fact.key!r}: generation {fact.generation} is hidden already")
        case Leased():
            if entry.phase is not EntryPhase.PUBLISHED:
                raise Superseded(f"{fact.key!r}: generation {fact.generation} is {entry.phase}")
            if fact.lease in entry.leases:
                raise LedgerError(f"{fact.key!r}: lease {fact.lease} is out already")
        case Returned():
            if fact.lease not in entry.leases:
                raise LedgerError(f"{fact.key!r}: lease {fact.lease} is not out")
        case Released():
            if entry.phase is not EntryPhase.HIDDEN:
                raise LedgerError(f"{fact.key!r}: generation {fact.generation} is {entry.phase}, not hidden")
            if entry.leases:
                holders = ", ".join(sorted(set(entry.leases.values())))
                raise StillLeased(f"{fact.key!r}: leased by {holders}")
            if fact.bytes != entry.bytes:
                raise LedgerError(f"{fact.key!r}: {fact.bytes} bytes released of {entry.bytes}")
