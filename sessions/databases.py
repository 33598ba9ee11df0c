"""The databases that a journal may lie in: SQLite, and PostgreSQL by its URL."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sql

from sessions.errors import JournalUnavailable

_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
}
_ALLOWED: Final = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def engine(url: str, full_sync: bool) -> sql.Engine:
    """A database engine without a pool; an SQLite one writes ahead, and is checkpointed by `tidy` alone.

    Raises `JournalUnavailable` for a URL that names no such database, without showing its password.
    """
    address = _address(url)
    try:
        made = sql.create_engine(address, poolclass=sql.NullPool)
    except ModuleNotFoundError as missing:
        raise JournalUnavailable(
            f"{address.get_backend_name()} needs the driver {missing.name!r}: install worldline[postgres]"
        ) from missing
    if made.dialect.name == "sqlite":

        @sql.event.listens_for(made, "connect")
        def _configure(connection: object, _: object) -> None:
            cursor = connection.cursor()  # type: ignore[attr-defined]
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute(f"PRAGMA synchronous = {'FULL' if full_sync else 'NORMAL'}")
            cursor.execute("PRAGMA busy_timeout = 5000")
            cursor.execute("PRAGMA wal_autocheckpoint = 0")
            cursor.close()

    return made


def tidy(connection: sql.Connection) -> None:
    """Move what was written ahead to its place, where the database does not see to that by itself."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").all()
        connection.rollback()  # ends the transaction that SQLAlchemy counts


def _address(url: str) -> sql.URL:
    try:
        address = sql.make_url(url)
    except (sql.exc.ArgumentError, ValueError) as error:
        raise JournalUnavailable(f"the journal's URL can't be read: give {_ALLOWED}") from error
    driver = _DRIVERS.get(address.drivername)
    if driver is None and address.drivername not in _DRIVERS.values():
        shown = address.render_as_string(hide_password=True)
        raise JournalUnavailable(f"the journal's URL is {shown}: give {_ALLOWED}")
    return address if driver is None else address.set(drivername=driver)


class Prepared:
    """A statement that is compiled once for each kind of database; run with a value for each of its names."""

    def __init__(self, statement: sql.Insert | sql.Update, *names: str) -> None:
        self._statement = statement
        self._names = list(names)
        self._texts: dict[str, tuple[str, list[str] | None]] = {}

    def run(self, connection: sql.Connection, values: dict[str, Any]) -> int:
        """Execute it; how many rows it touched."""
        kind = connection.dialect.name
        if kind not in self._texts:
            self._texts[kind] = self._compiled(connection.dialect)
        text, order = self._texts[kind]
        given = values if order is None else tuple([values[name] for name in order])
        return connection.exec_driver_sql(text, given).rowcount

    def _compiled(self, dialect: sql.Dialect) -> tuple[str, list[str] | None]:
        inserts = isinstance(self._statement, sql.Insert)
        compiled = self._statement.compile(dialect=dialect, column_keys=self._names if inserts else None)
        return str(compiled), compiled.positiontup


def storable(text: str) -> str:
    """The text without NUL, which PostgreSQL can't keep; see `stored`."""
    if "\0" in text or "\\" in text:
        return text.replace("\\", "\\\\").replace("\0", "\\0")
    return text


def stored(text: str) -> str:
    """What was made `storable`."""
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))
