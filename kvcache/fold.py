"""The state that facts amount to, and the fewest facts that a state follows from."""

from __future__ import annotations

from collections.abc import Iterable

from kvcache.facts import (
    BuildBegan,
    Carried,
    CleanupFailed,
    CloseBegan,
    ClosedSummary,
    Fact,
    Invalidated,
    Leased,
    Opened,
    OwnerFact,
    Published,
    Totals,
)
from kvcache.rules import check
from kvcache.state import EntryPhase, OwnerPhase, OwnerState, State


def fold(facts: Iterable[Fact]) -> State:
    """The state that `facts` amount to. Raises a `LedgerError` where they break the rules."""
    state = State()
    for fact in facts:
        if not isinstance(fact, Totals | ClosedSummary):
            check(state, fact)
        state.apply(fact)
    return state


def condensed(name: str, owner: OwnerState) -> list[OwnerFact]:
    """The fewest facts that fold to `owner`."""
    facts: list[OwnerFact] = [Opened(name, owner.life)]
    for entry in sorted(owner.entries.values(), key=lambda entry: entry.generation):
        key, generation = entry.key, entry.generation
        facts.append(BuildBegan(name, key, entry.identity, generation))
        if entry.phase is EntryPhase.BUILDING:
            continue
        facts.append(Published(name, key, generation, entry.bytes))
        facts.extend(Leased(name, key, generation, lease, who) for lease, who in entry.leases.items())
        if entry.phase is EntryPhase.HIDDEN:
            facts.append(Invalidated(name, key, generation, entry.reason))
    buried = owner.phase is OwnerPhase.TOMBSTONE
    facts.append(
        Carried(
            owner=name,
            builds=owner.builds,
            released_bytes=owner.released_bytes,
            cleanup_failures=owner.cleanup_failures - buried,
            newest_generation=owner.newest_generation,
            newest_lease=owner.newest_lease,
        )
    )
    if owner.phase is not OwnerPhase.OPEN:
        facts.append(CloseBegan(name))
    if buried:
        facts.append(CleanupFailed(name, owner.cause))
    return facts
