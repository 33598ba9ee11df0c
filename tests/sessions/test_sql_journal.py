"""What a journal in a database promises more: it outlives its process, kill -9 and a full disk."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sql
from journal_facts import FACTS, OPENED, write
from postgres_server import PostgresServer
from session_fixtures import SPEC

from sessions import facts
from sessions.errors import JournalCorrupt, JournalUnavailable, SequenceConflict
from sessions.events import Event
from sessions.facts import Fact
from sessions.journal import KnownEvent
from sessions.sql_journal import SqlJournal, _Append


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    fresh: str = request.getfixturevalue("postgres").new_database()
    return fresh


async def test_a_commit_that_nobody_waits_for_is_written_also_where_nothing_follows(url: str) -> None:
    journal = SqlJournal(url)
    await journal.start()
    await write(journal, *FACTS[:4])
    committed = journal.append("w", 4, FACTS[4], 104.0)
    assert [record.fact for record in await journal.read("w")] == FACTS[:5]  # what comes next takes it along
    assert committed.done()
    await journal.append("w", 5, facts.ChunkCommitted(1, 3, (), "sha"), 105.0)
    last = journal.append("w", 6, facts.ChunkCommitted(1, 4, (), "sha"), 106.0)
    await journal.stop()
    assert last.done() and last.exception() is None
    await journal.start()
    assert len(await journal.read("w")) == 7
    await journal.stop()


async def test_a_journal_in_a_database_outlives_its_process(url: str) -> None:
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


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://me:secret@host/db", "mysql://me:\\*\\*\\*@host/db: give sqlite:///FILE or postgresql://"),
        ("no url", "can't be read: give sqlite:///FILE"),
        ("postgresql+psycopg2://me@host/db", "give sqlite:///FILE"),
    ],
)
async def test_a_url_of_another_kind_is_refused_without_its_password(url: str, told: str) -> None:
    journal = SqlJournal(url)
    with pytest.raises(JournalUnavailable, match=told) as refused:
        await journal.start()
    assert "secret" not in str(refused.value)
    await journal.stop()


async def test_of_two_journals_over_one_database_one_loses(url: str) -> None:
    """Each writer takes the next number again and again, both at once, as two servers would."""
    journals = SqlJournal(url), SqlJournal(url)
    for journal in journals:
        await journal.start()
    await write(journals[0], OPENED)
    for number in range(1, 40):
        events = [facts.EventAccepted(Event(2 * number + who, "rain"), f"digest-{who}") for who in (0, 1)]
        writes = [
            journal.append("w", number, event, 0.0) for journal, event in zip(journals, events, strict=True)
        ]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "SequenceConflict"]
        winner = outcomes.index(None)
        [record] = await journals[1 - winner].read("w", after=number - 1)
        assert record.fact == events[winner]
        assert await journals[0].event("w", 2 * number + 1 - winner) is None
    for journal in journals:
        await journal.stop()


async def test_two_journals_can_not_both_open_a_session(url: str) -> None:
    journals = SqlJournal(url), SqlJournal(url)
    for journal in journals:
        await journal.start()
    opened = [facts.SessionOpened("s", world, SPEC) for world in ("v", "w")]
    writes = [
        journal.append(fact.world, 0, fact, 0.0) for journal, fact in zip(journals, opened, strict=True)
    ]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "SequenceConflict"]
    for journal in journals:
        await journal.stop()


async def test_a_connection_that_is_cut_fails_a_write_and_the_next_one_works(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_database()
    journal = SqlJournal(url)
    await journal.start()
    await write(journal, *FACTS[:2])
    assert postgres.cut_connections(url) == 1
    with pytest.raises(JournalUnavailable, match="terminating connection"):
        await journal.append("w", 2, FACTS[2], 0.0)
    await write(journal, *FACTS[2:], first=2)
    assert [record.fact for record in await journal.read("w")] == FACTS
    await journal.stop()


class CutShort(SqlJournal):
    """Its connection breaks behind what it was asked for, before or after the commit."""

    def __init__(self, url: str, cut: Callable[[], object], after_commit: bool) -> None:
        super().__init__(url)
        self._cut = cut
        self._after_commit = after_commit

    async def append_and_break(self, world: str, expected: int, fact: Fact, at: float) -> None:
        append = _Append(world, expected, fact, at)
        await self._submit(_Broken(append, self._cut, self._after_commit))


class _Broken(_Append):
    def __init__(self, append: _Append, cut: Callable[[], object], after_commit: bool) -> None:
        super().__init__(append.world, append.expected, append.fact, append.at)
        object.__setattr__(self, "cut", cut)
        object.__setattr__(self, "after_commit", after_commit)

    def __call__(self, connection: sql.Connection) -> None:
        super().__call__(connection)
        if self.after_commit:  # type: ignore[attr-defined]
            connection.connection.dbapi_connection.commit()
        self.cut()  # type: ignore[attr-defined]
        connection.exec_driver_sql("SELECT 1")


@pytest.mark.parametrize("after_commit", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("fact", [OPENED, *FACTS[1:4], FACTS[-1]], ids=lambda fact: type(fact).__name__)
async def test_a_write_that_was_reported_as_failed_has_not_happened(
    postgres: PostgresServer, fact: Fact, after_commit: bool
) -> None:
    """Also where the connection broke between its commit and the confirmation."""
    url = postgres.new_database()
    journal = CutShort(url, lambda: postgres.cut_connections(url), after_commit)
    await journal.start()
    before: list[Fact] = [] if fact is OPENED else [OPENED]
    await write(journal, *before)
    with pytest.raises(JournalUnavailable):
        await journal.append_and_break("w", len(before), fact, 7.0)
    assert [record.fact for record in await journal.read("w")] == before
    assert await journal.event("w", 3) is None
    await write(journal, fact, first=len(before))
    assert [record.fact for record in await journal.read("w")] == [*before, fact]
    await journal.stop()


async def test_what_another_writer_built_upon_is_not_taken_back(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    other = SqlJournal(url)
    await other.start()

    def cut() -> None:
        postgres.cut_connections(url)
        postgres.change(url, "UPDATE lives SET facts = 3 WHERE world = 'w'")

    journal = CutShort(url, cut, after_commit=True)
    await journal.start()
    await write(journal, OPENED)
    with pytest.raises(JournalUnavailable):
        await journal.append_and_break("w", 1, FACTS[1], 7.0)
    assert [record.fact for record in await journal.read("w")] == FACTS[:2]
    with pytest.raises(SequenceConflict):
        await journal.append("w", 1, FACTS[2], 0.0)
    await journal.stop()
    await other.stop()


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


@pytest.mark.parametrize(
    ("url", "acknowledged"), [("sqlite", 1), ("sqlite", 200), ("postgres", 60)], indirect=["url"]
)
async def test_kill_9_loses_no_acknowledged_fact(url: str, acknowledged: int) -> None:
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
