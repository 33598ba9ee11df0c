"""The journal in a database, through SQLAlchemy Core: SQLite by default, PostgreSQL by its URL.

One thread owns the only connection. It takes whatever waits, does it in one transaction and commits (group
commit), then tells the event loop; so one disk flush serves many sessions, and reads see earlier writes. A
chunk's commit, for which nobody waits, stays with the event loop until something else is asked for (mostly
the next chunk's tick), and shares its transaction. What the database has to do for itself waits until
everybody has been told.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import sqlalchemy as sql

from sessions import databases, journal_tables
from sessions.errors import EventIdConflict, JournalUnavailable, SessionError
from sessions.facts import ChunkCommitted, Fact
from sessions.journal import KnownEvent, Life, Record

LARGEST_BATCH: Final = 256  # jobs: nothing is added to a transaction of so many
TIDY_AFTER: Final = 256  # jobs, at the next idle moment; or after so many times as many in any case
PATIENCE: Final = 16
SHARE_S: Final = 0.25  # a small model makes another chunk within that

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Append:
    """Adds a fact."""

    world: str
    expected: int
    fact: Fact
    at: float

    def __call__(self, connection: sql.Connection) -> None:
        journal_tables.append(connection, self.world, self.expected, self.fact, self.at)

    def withdraw(self, connection: sql.Connection) -> None:
        """Take it back, where it was done all the same."""
        journal_tables.withdraw(connection, self.world, self.expected, self.fact, self.at)


@dataclass(slots=True)
class _Job:
    work: Callable[[sql.Connection], Any]
    done: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class SqlJournal:
    """Implements `Journal`. `url` is SQLAlchemy's, e.g. `sqlite:////data/journal.db` or
    `postgresql://user:password@host/name`.

    What is durable survives kill -9 of any process; with `full_sync` it survives power loss too (SQLite only:
    PostgreSQL has a setting of its own). A chunk's commit finds company within `share_s` seconds, or is
    written alone.
    """

    def __init__(self, url: str, *, full_sync: bool = False, share_s: float = SHARE_S) -> None:
        self._url = url
        self._share_s = share_s
        self._full_sync = full_sync
        self._jobs: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._patient: list[_Job] = []  # not with the thread yet
        self._alarm: asyncio.TimerHandle | None = None  # while there are any
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Open the database and make its tables where they are missing."""
        assert self._thread is None, "a journal is started once"
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()
        await self._do(journal_tables.create)

    async def stop(self) -> None:
        """Write what waits, and close the database."""
        if self._thread is None:
            return
        written = self._submit(lambda _: None)
        self._jobs.put(None)
        thread, self._thread = self._thread, None
        with suppress(JournalUnavailable):
            await written
        thread.join()  # it has nothing left to do but close its connection

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        """Append; the future is done once it is durable."""
        return self._submit(_Append(world, expected, fact, at), patient=isinstance(fact, ChunkCommitted))

    def hasten(self) -> None:
        """Write what has been appended up to now without waiting for company."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._patient:
            jobs, self._patient = self._patient, []
            self._jobs.put(jobs)

    async def read(self, world: str, after: int = -1, limit: int | None = None) -> list[Record]:
        """A life's facts beyond the number `after`."""
        return await self._do(lambda connection: journal_tables.read(connection, world, after, limit))

    async def event(self, world: str, event_id: int) -> KnownEvent | None:
        """What is known of an event id."""
        return await self._do(lambda connection: journal_tables.event(connection, world, event_id))

    async def event_named(self, world: str, name: str) -> KnownEvent | None:
        """What is known of a client's string."""
        return await self._do(lambda connection: journal_tables.event_named(connection, world, name))

    async def latest(self, session_id: str) -> Life | None:
        """The newest life of a session id."""
        return await self._do(lambda connection: journal_tables.latest(connection, session_id))

    async def open_lives(self) -> list[Life]:
        """Every life that is not closed, oldest first."""
        return await self._do(journal_tables.open_lives)

    # In the event loop

    def _submit(self, work: Callable[[sql.Connection], T], patient: bool = False) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._thread is None:
            done.set_exception(JournalUnavailable("the journal is not open"))
            return done
        self._patient.append(_Job(work, done))
        if not patient:
            self.hasten()
        elif self._alarm is None:
            self._alarm = loop.call_later(self._share_s, self.hasten)
        return done

    async def _do(self, work: Callable[[sql.Connection], T]) -> T:
        return await self._submit(work)

    def _settle(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if job.done.cancelled():
                continue
            if job.error is not None:
                job.done.set_exception(job.error)
            else:
                job.done.set_result(job.result)

    # In the thread

    def _write(self) -> None:
        database = _Database(self._url, self._full_sync)
        stopping = False
        while not stopping:
            jobs, stopping = self._take()
            if jobs:
                database.run(jobs)
                self._tell(jobs)
                database.tidy(idle=self._jobs.empty())
        database.close()

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for jobs, then take all that have come meanwhile; whether the end was among them."""
        jobs: list[_Job] = []
        more = self._jobs.get()
        while more is not None:
            jobs += more
            if len(jobs) >= LARGEST_BATCH:
                return jobs, False
            try:
                more = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _tell(self, jobs: list[_Job]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._settle, jobs)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.warning("the journal wrote %d jobs after its event loop had closed", len(jobs))


class _Database:
    """The thread's connection; opened at its first use, and again after it broke."""

    def __init__(self, url: str, full_sync: bool) -> None:
        self._url = url
        self._full_sync = full_sync
        self._engine: sql.Engine | None = None
        self._connection: sql.Connection | None = None
        self._untidy = 0  # jobs since it was tidied
        self._doubtful: list[_Append] = []  # reported as failed, and perhaps done

    def run(self, jobs: list[_Job]) -> None:
        """All jobs in one transaction; where that fails, each in its own, so that none spoils others."""
        if len(jobs) > 1 and self._attempt(jobs):
            return
        for job in jobs:
            self._attempt([job])

    def _attempt(self, jobs: list[_Job]) -> bool:
        error: Exception
        self._untidy += len(jobs)
        connection: sql.Connection | None = None
        try:
            connection = self._open()
            with connection.begin():
                for job in jobs:
                    job.result, job.error = job.work(connection), None
            return True
        except SessionError as refused:
            error = refused
        except sql.exc.IntegrityError as clash:
            error = EventIdConflict(f"the journal holds this already: {clash.orig}")
        except (sql.exc.SQLAlchemyError, OSError) as broken:
            self.close()
            if connection is not None:
                self._doubtful += [job.work for job in jobs if isinstance(job.work, _Append)]
            error = JournalUnavailable(f"the journal can't be used: {_reason(broken)}")
        except Exception as bug:  # a thread that died of it would leave everybody waiting
            log.exception("the journal stumbled over a job")
            error = bug
        for job in jobs:
            job.error = error
        return False

    def _open(self) -> sql.Connection:
        if self._connection is None:
            self._engine = self._engine or databases.engine(self._url, self._full_sync)
            self._connection = self._engine.connect()
            self._withdraw(self._connection)
        return self._connection

    def _withdraw(self, connection: sql.Connection) -> None:
        """What was reported as failed has not happened: whoever hears that goes on from before it."""
        if self._doubtful:
            with connection.begin():
                for append in reversed(self._doubtful):
                    append.withdraw(connection)
            self._doubtful.clear()

    def tidy(self, idle: bool) -> None:
        """Do the database's own work where it is due, and best where nobody waits."""
        if self._connection is None or self._untidy < TIDY_AFTER * (1 if idle else PATIENCE):
            return
        self._untidy = 0
        try:
            databases.tidy(self._connection)
        except sql.exc.SQLAlchemyError as error:
            log.warning("the journal could not be tidied: %s", _reason(error))
            self.close()

    def close(self) -> None:
        """Close the connection; the next job opens another."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
            if self._engine is not None:
                self._engine.dispose()
        except sql.exc.SQLAlchemyError as error:
            log.warning("the journal's connection did not close cleanly: %s", _reason(error))


def _reason(error: Exception) -> str:
    origin = error.orig if isinstance(error, sql.exc.DBAPIError) else error
    return str(origin).partition("\n")[0]
