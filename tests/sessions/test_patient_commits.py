"""A chunk's commit, for which nobody waits, is written with what comes next, or when somebody does wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql
from journal_facts import FACTS, write
from manual_clock import ManualClock

from sessions import facts
from sessions.pen import Pen
from sessions.sql_journal import SqlJournal

COMMITTED = facts.ChunkCommitted(1, 2, (), "sha")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqlJournal]:
    """With four facts of a life in it."""
    opened = SqlJournal(f"sqlite:///{tmp_path}/journal.db", share_s=3600.0)
    await opened.start()
    await write(opened, *FACTS[:4])
    yield opened
    await opened.stop()


@pytest.fixture
def transactions() -> Iterator[list[sql.Connection]]:
    """Of every database, as they are committed."""
    seen: list[sql.Connection] = []

    def committed(connection: sql.Connection) -> None:
        seen.append(connection)

    sql.event.listen(sql.Engine, "commit", committed)
    yield seen
    sql.event.remove(sql.Engine, "commit", committed)


def on_disk(folder: Path) -> int:
    """How many facts whoever reads the database now would find."""
    with sqlite3.connect(folder / "journal.db") as database:
        (count,) = database.execute("SELECT count(*) FROM facts").fetchone()
    database.close()
    return int(count)


async def test_a_commit_shares_the_transaction_of_what_comes_next(
    journal: SqlJournal, transactions: list[sql.Connection], tmp_path: Path
) -> None:
    before = len(transactions)
    committed = journal.append("w", 4, COMMITTED, 104.0)
    assert on_disk(tmp_path) == 4
    await journal.append("w", 5, FACTS[5], 105.0)
    assert committed.done() and on_disk(tmp_path) == 6
    assert len(transactions) == before + 1


async def test_a_commit_that_somebody_waits_for_is_written_now(journal: SqlJournal, tmp_path: Path) -> None:
    committed = journal.append("w", 4, COMMITTED, 104.0)
    journal.hasten()
    journal.hasten()  # nothing is left to be hastened
    await committed
    assert on_disk(tmp_path) == 5


@pytest.mark.parametrize("wait", ["settled", "durable"])
async def test_a_pen_that_is_waited_for_hastens(journal: SqlJournal, wait: str) -> None:
    pen = Pen(journal, "w", ManualClock(), 4)
    committed = pen.owe(COMMITTED)
    async with asyncio.timeout(30):
        if wait == "settled":
            await pen.settled()
        else:
            durable = pen.durable()
            assert durable is not None
            await durable
    assert committed.done()
