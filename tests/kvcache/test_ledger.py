"""The ledger's rules, its fold, and that it stays small."""

from __future__ import annotations

import sys

import pytest

from kvcache.errors import (
    LedgerError,
    OwnerClosed,
    OwnerExists,
    OwnerTombstoned,
    StillHeld,
    StillLeased,
    Superseded,
)
from kvcache.facts import Carried, CleanupFailed, CloseBegan, ClosedSummary, Opened, Published, Totals
from kvcache.fold import fold
from kvcache.ledger import SUMMARIES, Ledger
from kvcache.state import Entry, EntryPhase


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.open("world")
    return ledger


def published(ledger: Ledger, key: str = "text", identity: str = "a", size: int = 10) -> int:
    generation = ledger.begin("world", key, identity)
    ledger.publish("world", key, generation, size)
    return generation


def hidden(ledger: Ledger) -> list[Entry]:
    """Values of the world that wait for their release."""
    entries = ledger.live.owners["world"].entries.values()
    return [entry for entry in entries if entry.phase is EntryPhase.HIDDEN]


def test_a_published_build_is_readable_and_weighs(ledger: Ledger) -> None:
    generation = ledger.begin("world", "text", "a")
    assert ledger.readable("world", "text") is None
    ledger.publish("world", "text", generation, 10)
    entry = ledger.readable("world", "text")
    assert entry is not None
    assert (entry.generation, entry.identity, entry.bytes) == (generation, "a", 10)
    assert ledger.live_bytes == 10


def test_an_owner_opens_once(ledger: Ledger) -> None:
    with pytest.raises(OwnerExists, match="'world' is open"):
        ledger.open("world")


def test_generations_are_never_used_again(ledger: Ledger) -> None:
    first = published(ledger)
    ledger.begin_close("world")
    ledger.released("world", "text", first)
    ledger.close("world")
    ledger.open("world")
    assert ledger.begin("world", "text", "a") > first


def test_only_the_newest_build_publishes(ledger: Ledger) -> None:
    older, newer = ledger.begin("world", "text", "a"), ledger.begin("world", "text", "a")
    assert not ledger.can_publish("world", "text", older)
    with pytest.raises(Superseded):
        ledger.publish("world", "text", older, 1)
    ledger.publish("world", "text", newer, 1)


def test_a_build_of_the_same_identity_leaves_the_value_readable(ledger: Ledger) -> None:
    generation = published(ledger)
    failing = ledger.begin("world", "text", "a")
    ledger.invalidate("world", "text", failing, "failed")
    entry = ledger.readable("world", "text")
    assert entry is not None
    assert entry.generation == generation


def test_a_build_of_another_identity_hides_the_value(ledger: Ledger) -> None:
    generation = published(ledger)
    ledger.begin("world", "text", "b")
    assert ledger.readable("world", "text") is None
    assert [entry.generation for entry in hidden(ledger)] == [generation]


def test_nothing_readable_or_leased_is_released(ledger: Ledger) -> None:
    generation = published(ledger)
    with pytest.raises(LedgerError, match="published, not hidden"):
        ledger.released("world", "text", generation)
    lease = ledger.lease("world", "text", generation, "reader")
    ledger.invalidate("world", "text", generation, "gone")
    with pytest.raises(StillLeased, match="leased by reader"):
        ledger.released("world", "text", generation)
    assert ledger.give_back("world", "text", generation, lease)
    assert not ledger.give_back("world", "text", generation, lease)
    assert ledger.released("world", "text", generation)
    assert not ledger.released("world", "text", generation)
    assert ledger.live_bytes == 0


def test_a_hidden_value_is_not_leased(ledger: Ledger) -> None:
    generation = published(ledger)
    ledger.invalidate("world", "text", generation, "gone")
    with pytest.raises(Superseded):
        ledger.lease("world", "text", generation, "reader")


def test_a_close_waits_for_every_release(ledger: Ledger) -> None:
    generation = published(ledger)
    ledger.begin_close("world")
    ledger.begin_close("world")
    with pytest.raises(StillHeld, match="holds 1"):
        ledger.close("world")
    ledger.released("world", "text", generation)
    ledger.close("world")
    ledger.close("world")
    assert not ledger.begin_close("world")
    assert ledger.can_open("world")


def test_a_close_supersedes_builds(ledger: Ledger) -> None:
    generation = ledger.begin("world", "text", "a")
    ledger.begin_close("world")
    with pytest.raises(Superseded):
        ledger.publish("world", "text", generation, 1)
    with pytest.raises(OwnerClosed):
        ledger.begin("world", "text", "a")
    ledger.close("world")
    with pytest.raises(Superseded):
        ledger.publish("world", "text", generation, 1)


def test_a_failed_cleanup_blocks_the_id_until_a_retry_succeeds(ledger: Ledger) -> None:
    generation = published(ledger)
    ledger.begin_close("world")
    ledger.cleanup_failed("world", "device is gone")
    assert ledger.tombstone("world") == "device is gone"
    for attempt in (lambda: ledger.open("world"), lambda: ledger.begin("world", "text", "a")):
        with pytest.raises(OwnerTombstoned, match="device is gone"):
            attempt()
    with pytest.raises(LedgerError, match="tombstone"):
        ledger.close("world")
    ledger.begin_close("world")
    ledger.released("world", "text", generation)
    ledger.close("world")
    ledger.open("world")
    assert ledger.is_consistent()


def test_facts_that_break_the_rules_do_not_fold() -> None:
    with pytest.raises(OwnerClosed):
        fold([CloseBegan("nobody")])
    with pytest.raises(Superseded):
        fold([Opened("world", 1), Published("world", "text", 1, 5)])
    with pytest.raises(LedgerError):
        fold([Opened("world", 1), CleanupFailed("world", "why")])


def test_a_fact_of_a_stranger_is_refused() -> None:
    ledger = Ledger()
    with pytest.raises(OwnerClosed):
        ledger.begin("nobody", "text", "a")
    with pytest.raises(Superseded):
        ledger.publish("nobody", "text", 1, 1)
    assert not ledger.invalidate("nobody", "text", 1, "why")
    assert not ledger.released("nobody", "text", 1)
    assert not ledger.can_release("nobody", 1)
    assert ledger.tombstone("nobody") is None


def test_a_closed_owner_keeps_one_summary(ledger: Ledger) -> None:
    generation = published(ledger, size=7)
    ledger.begin_close("world")
    ledger.released("world", "text", generation)
    ledger.close("world")
    assert ledger.facts("world") == (ClosedSummary("world", builds=1, released_bytes=7, cleanup_failures=0),)
    assert ledger.is_consistent()


def test_the_summaries_of_many_owners_become_totals() -> None:
    ledger = Ledger()
    for number in range(SUMMARIES + 50):
        ledger.open(f"world {number}")
        generation = ledger.begin(f"world {number}", "text", "a")
        ledger.publish(f"world {number}", "text", generation, 2)
        ledger.begin_close(f"world {number}")
        ledger.released(f"world {number}", "text", generation)
        ledger.close(f"world {number}")
    facts = ledger.facts()
    assert len(facts) == SUMMARIES + 1
    assert isinstance(facts[0], Totals)
    assert (facts[0].owners, facts[0].released_bytes) == (50, 100)
    assert ledger.live.closed == SUMMARIES + 50
    assert ledger.is_consistent()


def test_a_session_of_ten_thousand_prompts_keeps_few_facts(ledger: Ledger) -> None:
    kept = published(ledger, key="view", size=100)
    sizes = []
    for number in range(10_000):
        generation = published(ledger, identity=str(number))
        lease = ledger.lease("world", "text", generation, "chunk")
        ledger.give_back("world", "text", generation, lease)
        for entry in hidden(ledger):
            ledger.released("world", entry.key, entry.generation)
        sizes.append(len(ledger.facts("world")))
    assert max(sizes) < 100
    assert any(isinstance(fact, Carried) for fact in ledger.facts("world"))
    assert ledger.is_consistent()
    assert ledger.live_bytes == 110
    state = ledger.live.owners["world"]
    assert (state.builds, state.released_bytes) == (10_001, 99_990)
    entry = ledger.readable("world", "view")
    assert entry is not None
    assert entry.generation == kept


def test_a_tombstone_survives_a_compaction(ledger: Ledger) -> None:
    published(ledger)
    for number in range(200):
        ledger.begin_close("world")
        ledger.cleanup_failed("world", f"attempt {number}")
    assert len(ledger.facts("world")) < 100
    assert ledger.is_consistent()
    assert ledger.live.owners["world"].cleanup_failures == 200
    assert ledger.tombstone("world") == "attempt 199"


def test_the_ledger_imports_no_torch() -> None:
    import subprocess

    modules = "capacity, errors, facts, fold, geometry, identity, ledger, pool, rules, sharing, slots"
    modules += ", state, table"
    code = f"import sys; from kvcache import {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
