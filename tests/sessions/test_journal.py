"""Both journals keep the same promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from journal_facts import FACTS, OPENED, write
from session_fixtures import SPEC

from sessions import facts
from sessions.errors import EventIdConflict, JournalCorrupt, SequenceConflict
from sessions.events import Event
from sessions.fact_codec import decode, encode, kind_of
from sessions.facts import Fact
from sessions.journal import Journal, KnownEvent
from sessions.memory_journal import MemoryJournal
from sessions.sql_journal import SqlJournal


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    made: Journal = MemoryJournal()
    if request.param == "sqlite":
        made = SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    elif request.param == "postgres":
        made = SqlJournal(request.getfixturevalue("postgres").new_database())
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_every_fact_reads_back_as_it_was_written(fact: Fact) -> None:
    image = OPENED.spec.image
    assert decode(kind_of(fact), encode(fact), image) == fact


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("no such kind", "{}"),
        ("closed", "{"),
        ("closed", "{}"),
        ("closed", '{"reason": "x", "more": 1}'),
        ("begun", '{"tick": {}}'),
        ("reset", "[]"),
        ("committed", '{"epoch": NaN}'),
    ],
)
def test_a_fact_that_can_not_be_understood_is_refused(kind: str, text: str) -> None:
    with pytest.raises(JournalCorrupt, match=kind):
        decode(kind, text)


async def test_a_life_reads_back_in_order(journal: Journal) -> None:
    await write(journal, *FACTS)
    records = await journal.read("w")
    assert [record.fact for record in records] == FACTS
    assert [record.sequence for record in records] == list(range(len(FACTS)))
    assert [record.at for record in records] == [100.0 + number for number in range(len(FACTS))]
    assert await journal.read("w", after=3, limit=2) == records[4:6]
    assert await journal.read("another") == []


async def test_of_two_writers_one_loses(journal: Journal) -> None:
    await write(journal, OPENED)
    one = journal.append("w", 1, FACTS[1], 0.0)
    other = journal.append("w", 1, FACTS[2], 0.0)
    await one
    with pytest.raises(SequenceConflict):
        await other
    assert [record.fact for record in await journal.read("w")] == FACTS[:2]


async def test_a_gap_is_refused(journal: Journal) -> None:
    await write(journal, OPENED)
    with pytest.raises(SequenceConflict):
        await journal.append("w", 2, FACTS[1], 0.0)


async def test_appends_take_effect_in_the_order_of_the_calls(journal: Journal) -> None:
    written = [journal.append("w", number, fact, 0.0) for number, fact in enumerate(FACTS)]
    await asyncio.gather(*written)
    assert [record.fact for record in await journal.read("w")] == FACTS


async def test_a_lost_append_spoils_no_other_in_its_batch(journal: Journal) -> None:
    other = facts.SessionOpened("other", "v", SPEC)
    await write(journal, OPENED)
    writes = [
        journal.append("v", 0, other, 0.0),
        journal.append("w", 9, FACTS[1], 0.0),
        journal.append("w", 1, FACTS[1], 0.0),
    ]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert outcomes[0] is outcomes[2] is None
    assert isinstance(outcomes[1], SequenceConflict)


async def test_nothing_follows_a_close(journal: Journal) -> None:
    await write(journal, OPENED, facts.SessionClosed("client"))
    with pytest.raises(SequenceConflict):
        await journal.append("w", 2, FACTS[1], 0.0)


async def test_a_session_id_has_one_open_life_and_can_be_used_again(journal: Journal) -> None:
    again = facts.SessionOpened("s", "w2", SPEC)
    await write(journal, OPENED)
    with pytest.raises(SequenceConflict):
        await journal.append("w2", 0, again, 0.0)
    await write(journal, facts.SessionClosed("client"), first=1)
    assert await journal.open_lives() == []
    await write(journal, again, world="w2")
    life = await journal.latest("s")
    assert life is not None
    assert (life.world, life.facts, life.closed) == ("w2", 1, False)
    assert [life.world for life in await journal.open_lives()] == ["w2"]
    assert await journal.latest("nobody") is None


async def test_events_are_found_by_id_and_by_name_in_their_own_life(journal: Journal) -> None:
    await write(journal, *FACTS[:3])
    assert await journal.event("w", 3) == KnownEvent(3, "evt-c", "digest-3")
    assert await journal.event("w", 4) == KnownEvent(4, None, "digest-4")
    assert await journal.event_named("w", "evt-c") == KnownEvent(3, "evt-c", "digest-3")
    assert await journal.event("w", 5) is None
    assert await journal.event("another", 3) is None
    assert await journal.event_named("another", "evt-c") is None


@pytest.mark.parametrize(
    "again",
    [facts.EventAccepted(Event(3, "snow"), "d"), facts.EventAccepted(Event(9, "snow"), "d", "evt-c")],
    ids=["id", "name"],
)
async def test_an_event_id_or_name_is_taken_once(journal: Journal, again: facts.EventAccepted) -> None:
    await write(journal, *FACTS[:2])
    with pytest.raises(EventIdConflict):
        await journal.append("w", 2, again, 0.0)
    await write(journal, FACTS[2], first=2)


async def test_names_may_hold_any_character(journal: Journal) -> None:
    for number, name in enumerate(("a\0b", "a\\0b", "a\\\0", "ü\n'")):
        opened = facts.SessionOpened(name, f"w{number}", SPEC)
        await write(journal, opened, facts.EventAccepted(Event(1, "\0"), "d", name), world=f"w{number}")
        life = await journal.latest(name)
        assert life is not None and (life.world, life.session_id) == (f"w{number}", name)
        assert await journal.event_named(f"w{number}", name) == KnownEvent(1, name, "d")
        assert (await journal.read(f"w{number}"))[0].fact == opened
    assert await journal.latest("nobody\0") is None
