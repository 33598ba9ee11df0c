"""Both journals keep the same promises; the one in a database keeps them through kill -9 too."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from session_fixtures import SPEC, keys

from engine.api import Tick
from sessions import facts
from sessions.errors import EventIdConflict, JournalCorrupt, JournalUnavailable, SequenceConflict
from sessions.events import Event, frozen_event
from sessions.fact_codec import decode, encode, kind_of
from sessions.facts import Fact
from sessions.frozen import FrozenDict
from sessions.journal import Journal, KnownEvent
from sessions.memory_journal import MemoryJournal
from sessions.sql_journal import SqlJournal

TICK = Tick(
    session_id="s",
    world="w",
    epoch=1,
    request_id="r",
    chunk_index=2,
    event_ids=(3, 4),
    prompt="räin ☔",
    controls=frozen_event(Event(1, None, (keys("w"),))).controls,
    conditioning=FrozenDict(camera=(FrozenDict(yaw=0.1), None)),
)
OPENED = facts.SessionOpened("s", "w", replace(SPEC, image=b"\x89PNG", scene=None, script=TICK.controls[0]))
FACTS: list[Fact] = [
    OPENED,
    facts.EventAccepted(frozen_event(Event(3, "räin", (keys("w"),))), "digest-3", "evt-c"),
    facts.EventAccepted(Event(4, "rain"), "digest-4"),
    facts.ChunkBegun(TICK, "sha", 7),
    facts.ChunkCommitted(1, 2, (3, 4), "sha"),
    facts.SessionFailed(1, 3, "session_failed", "out of memory"),
    facts.SessionReset(2, True),
    facts.CleanupFailed("pages are leased"),
    facts.SessionClosed("client"),
]


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    sqlite = f"sqlite:///{tmp_path}/journal.db"
    made: Journal = MemoryJournal() if request.param == "memory" else SqlJournal(sqlite)
    await made.start()
    yield made
    await made.stop()


async def write(journal: Journal, *written: Fact, world: str = "w", first: int = 0) -> None:
    for number, fact in enumerate(written, first):
        await journal.append(world, number, fact, 100.0 + number)


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


async def test_a_journal_in_a_database_outlives_its_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    first = SqlJournal(url)
    await first.start()
    await write(first, *FACTS[:4])
    await first.stop()
    await first.stop()
    second = SqlJournal(url, full_sync=True)
    await second.start()
    assert [record.fact for record in await second.read("w")] == FACTS[:4]
    await write(second, FACTS[4], first=4)
    await second.stop()


async def test_what_can_not_be_opened_says_why(tmp_path: Path) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path}/no/such/folder/journal.db")
    with pytest.raises(JournalUnavailable, match="unable to open database file"):
        await journal.start()
    await journal.stop()
    with pytest.raises(JournalUnavailable, match="not open"):
        await journal.read("w")


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database" * 100)
    journal = SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    with pytest.raises(JournalUnavailable, match="not a database"):
        await journal.start()
    await journal.stop()


async def test_a_full_disk_fails_the_write_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = FullDisk(f"sqlite:///{path}")
    await journal.start()
    await write(journal, OPENED)
    await journal.fill()
    large = facts.EventAccepted(Event(5, "x" * 200_000), "digest-5")
    with pytest.raises(JournalUnavailable, match="full"):
        await journal.append("w", 1, large, 0.0)
    assert await journal.event("w", 5) is None
    await journal.make_room()
    await journal.append("w", 1, large, 0.0)
    assert await journal.event("w", 5) == KnownEvent(5, None, "digest-5")
    await journal.stop()


class FullDisk(SqlJournal):
    """Its database may not grow beyond the pages it has, which is what SQLite calls a full disk."""

    async def fill(self) -> None:
        await self._limit(1)

    async def make_room(self) -> None:
        await self._limit(1_000_000)

    async def _limit(self, pages: int) -> None:
        await self._do(
            lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}").all()
        )


async def test_a_damaged_fact_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqlJournal(f"sqlite:///{path}")
    await journal.start()
    await write(journal, *FACTS[:4])
    await journal.stop()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE facts SET content = substr(content, 1, 20) WHERE sequence = 3")
    database.close()
    await journal.start()
    assert len(await journal.read("w", limit=3)) == 3
    with pytest.raises(JournalCorrupt):
        await journal.read("w")
    await journal.stop()


WRITER = """
import asyncio, sys
from sessions import facts
from sessions.events import Event
from sessions.sql_journal import SqlJournal
from sessions.spec import SessionSpec

async def main(url):
    journal = SqlJournal(url)
    await journal.start()
    spec = SessionSpec("a meadow", 96, 64, 16, 7, scene="meadow")
    await journal.append("w", 0, facts.SessionOpened("s", "w", spec), 0.0)
    for number in range(1, 1_000_000):
        await journal.append("w", number, facts.EventAccepted(Event(number, "rain"), f"digest-{number}"), 0.0)
        print(number, flush=True)

asyncio.run(main(sys.argv[1]))
"""


def write_until_killed(url: str, acknowledged: int) -> int:
    """Let a process write, and kill it -9 after so many acknowledged facts; the last it acknowledged."""
    command = [sys.executable, "-c", WRITER, url]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as writer:
        assert writer.stdout is not None
        last = 0
        for line in writer.stdout:
            if line.endswith("\n"):
                last = int(line)
            if last == acknowledged:
                os.kill(writer.pid, signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    return last


@pytest.mark.parametrize("acknowledged", [1, 60, 200])
async def test_kill_9_loses_no_acknowledged_fact(tmp_path: Path, acknowledged: int) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    last = write_until_killed(url, acknowledged)
    journal = SqlJournal(url)
    await journal.start()
    records = await journal.read("w")
    assert [record.sequence for record in records] == list(range(len(records)))
    assert len(records) > last >= acknowledged
    for number in range(1, last + 1):
        assert await journal.event("w", number) == KnownEvent(number, None, f"digest-{number}")
    await journal.append("w", len(records), facts.SessionClosed("client"), 0.0)
    await journal.stop()
