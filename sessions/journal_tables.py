"""The journal's tables and what is done in them; every function runs inside its caller's transaction."""

from __future__ import annotations

import sqlalchemy as sql

from sessions import facts
from sessions.databases import Prepared, storable, stored
from sessions.errors import EventIdConflict, SequenceConflict
from sessions.fact_codec import decode, encode, kind_of
from sessions.facts import Fact
from sessions.journal import KnownEvent, Life, Record

metadata = sql.MetaData()

lives = sql.Table(
    "lives",
    metadata,
    sql.Column("number", sql.Integer, primary_key=True),  # in the order of opening
    sql.Column("world", sql.String, nullable=False, unique=True),
    sql.Column("session_id", sql.String, nullable=False, index=True),
    sql.Column("opened_at", sql.Double, nullable=False),
    sql.Column("facts", sql.BigInteger, nullable=False),  # the number of the next fact
    sql.Column("closed", sql.Boolean, nullable=False),
    sql.Column("image", sql.LargeBinary),
)
sql.Index(
    "one_open_life",
    lives.c.session_id,
    unique=True,
    sqlite_where=lives.c.closed.is_(sql.false()),
    postgresql_where=lives.c.closed.is_(sql.false()),
)

records = sql.Table(
    "facts",
    metadata,
    sql.Column("world", sql.String, primary_key=True),
    sql.Column("sequence", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("at", sql.Double, nullable=False),
    sql.Column("kind", sql.String, nullable=False),
    sql.Column("content", sql.Text, nullable=False),
)

events = sql.Table(
    "events",
    metadata,
    sql.Column("world", sql.String, primary_key=True),
    sql.Column("event_id", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("name", sql.String),
    sql.Column("digest", sql.String, nullable=False),
    sql.UniqueConstraint("world", "name"),
)


def create(connection: sql.Connection) -> None:
    """Make the tables that are missing."""
    metadata.create_all(connection)


def append(connection: sql.Connection, world: str, expected: int, fact: Fact, at: float) -> None:
    """Add a fact under the number `expected`; see `Journal.append`."""
    if isinstance(fact, facts.SessionOpened):
        _open(connection, fact, at)
    _advance(connection, world, expected, isinstance(fact, facts.SessionClosed))
    if isinstance(fact, facts.EventAccepted):
        _know(connection, world, fact)
    row = {"world": world, "sequence": expected, "at": at, "kind": kind_of(fact), "content": encode(fact)}
    _add_record.run(connection, row)


_add_record = Prepared(records.insert(), "world", "sequence", "at", "kind", "content")


def _open(connection: sql.Connection, fact: facts.SessionOpened, at: float) -> None:
    row = {
        "world": fact.world,
        "session_id": storable(fact.session_id),
        "opened_at": at,
        "facts": 0,
        "closed": False,
        "image": fact.spec.image,
    }
    try:
        connection.execute(lives.insert(), row)
    except sql.exc.IntegrityError as clash:
        raise SequenceConflict(f"session {fact.session_id!r} is open already") from clash


_advance_life = Prepared(
    lives.update()
    .where(
        lives.c.world == sql.bindparam("w"),
        lives.c.facts == sql.bindparam("expected"),
        lives.c.closed.is_(sql.false()),
    )
    .values(facts=sql.bindparam("next"), closed=sql.bindparam("ended"))
)


def _advance(connection: sql.Connection, world: str, expected: int, ended: bool) -> None:
    """Take the number `expected`: of two writers, the database lets one."""
    values = {"w": world, "expected": expected, "next": expected + 1, "ended": ended}
    if _advance_life.run(connection, values) != 1:
        raise SequenceConflict(f"fact {expected} of {world} is not the next one")


_add_event = Prepared(events.insert(), "world", "event_id", "name", "digest")


def _know(connection: sql.Connection, world: str, fact: facts.EventAccepted) -> None:
    name = None if fact.name is None else storable(fact.name)
    row = {"world": world, "event_id": fact.event.event_id, "name": name, "digest": fact.digest}
    try:
        _add_event.run(connection, row)
    except sql.exc.IntegrityError as clash:
        raise EventIdConflict(f"event {fact.event.event_id} is taken", field="event_id") from clash


def withdraw(connection: sql.Connection, world: str, expected: int, fact: Fact, at: float) -> None:
    """Take an append back that was reported as failed, where the database has it all the same.

    That is so where the connection broke between a commit and its confirmation. What another writer has
    added, or has built upon, stays.
    """
    where = (records.c.world == world, records.c.sequence == expected)
    row = connection.execute(records.select().where(*where)).one_or_none()
    ours = row is not None and (row.at, row.kind, row.content) == (at, kind_of(fact), encode(fact))
    life = lives.c.world == world
    if not ours or connection.scalar(sql.select(lives.c.facts).where(life)) != expected + 1:
        return
    connection.execute(records.delete().where(*where))
    if isinstance(fact, facts.EventAccepted):
        event_id = fact.event.event_id
        connection.execute(events.delete().where(events.c.world == world, events.c.event_id == event_id))
    if isinstance(fact, facts.SessionOpened):
        connection.execute(lives.delete().where(life))
    else:
        connection.execute(lives.update().where(life).values(facts=expected, closed=False))


def read(connection: sql.Connection, world: str, after: int, limit: int | None) -> list[Record]:
    """A life's facts beyond the number `after`, in order."""
    chosen = records.select().where(records.c.world == world, records.c.sequence > after)
    rows = connection.execute(chosen.order_by(records.c.sequence).limit(limit)).all()
    image = None
    if rows and rows[0].sequence == 0:
        image = connection.scalar(sql.select(lives.c.image).where(lives.c.world == world))
    return [Record(row.sequence, row.at, decode(row.kind, row.content, image)) for row in rows]


def event(connection: sql.Connection, world: str, event_id: int) -> KnownEvent | None:
    """What is known of an event id."""
    return _known(connection, events.c.world == world, events.c.event_id == event_id)


def event_named(connection: sql.Connection, world: str, name: str) -> KnownEvent | None:
    """What is known of a client's string."""
    return _known(connection, events.c.world == world, events.c.name == storable(name))


def _known(connection: sql.Connection, *where: sql.ColumnElement[bool]) -> KnownEvent | None:
    row = connection.execute(events.select().where(*where)).one_or_none()
    if row is None:
        return None
    return KnownEvent(row.event_id, None if row.name is None else stored(row.name), row.digest)


def latest(connection: sql.Connection, session_id: str) -> Life | None:
    """The newest life of a session id."""
    mine = lives.c.session_id == storable(session_id)
    row = connection.execute(_life_columns.where(mine).order_by(lives.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else _life(row)


def open_lives(connection: sql.Connection) -> list[Life]:
    """Every life that is not closed, oldest first."""
    chosen = _life_columns.where(lives.c.closed.is_(sql.false())).order_by(lives.c.number)
    return [_life(row) for row in connection.execute(chosen)]


def _life(row: sql.Row[tuple[str, str, float, int, bool]]) -> Life:
    return Life(row.world, stored(row.session_id), row.opened_at, row.facts, row.closed)


_life_columns = sql.select(
    lives.c.world, lives.c.session_id, lives.c.opened_at, lives.c.facts, lives.c.closed
)
