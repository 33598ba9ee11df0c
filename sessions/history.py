"""What a session is, from its facts alone: the same protocol that wrote them reads them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.api import Reducer
from sessions import facts
from sessions.conditions import Conditions, EventMarks
from sessions.entry import Entry
from sessions.errors import JournalCorrupt, SessionError
from sessions.facts import ChunkBegun, Fact
from sessions.journal import Journal
from sessions.protocol import SessionProtocol
from sessions.spec import SessionSpec
from sessions.state import SessionState


@dataclass(frozen=True, slots=True)
class Link:
    """A committed chunk: its tick, and what was in force behind it."""

    begun: ChunkBegun
    marks: EventMarks
    after: Conditions
    floor: int


@dataclass(slots=True)
class History:
    """A session as its facts leave it.

    `line` holds the chunks that its world has run, the first one first: those of its current epoch, and
    behind a rewind or fork those of before.

    A chunk that was begun and not committed is in the protocol's flight, and shown: its very tick has to be
    run again. `flight` is its fact.
    """

    opened: facts.SessionOpened
    protocol: SessionProtocol
    start: Conditions  # before the first chunk of the line
    line: list[Link] = field(default_factory=list)
    flight: Link | None = None
    transport_index: int = 0  # the next chunk's
    count: int = 1  # of facts
    revived: bool = False  # by `Sleepers`

    @property
    def spec(self) -> SessionSpec:
        """What it was opened with, image included."""
        return self.opened.spec

    def conditions_at(self, chunks: int) -> Conditions:
        """What was in force when so many chunks of the line were committed."""
        return self.line[chunks - 1].after if chunks else self.start

    def floor_at(self, chunks: int) -> int:
        """The event floor of then."""
        return self.line[chunks - 1].floor if chunks else 0

    def follow(self, fact: Fact) -> None:
        """One fact more. Raises `JournalCorrupt` where it can't follow from those before it."""
        try:
            self._follow(fact)
        except (SessionError, AssertionError) as error:
            message = f"fact {self.count} does not follow from those before it: {error}"
            raise JournalCorrupt(message) from error
        self.count += 1

    def _follow(self, fact: Fact) -> None:
        protocol = self.protocol
        match fact:
            case facts.EventAccepted():
                protocol.enqueue(Entry(fact.event, fact.name))
            case facts.ChunkBegun():
                self._begin(fact)
            case facts.ChunkCommitted():
                self._commit(fact)
            case facts.SessionFailed():
                protocol.fail(fact.message)
                self.flight = None
            case facts.SessionReset():
                protocol.reset(fact.resume)
                protocol.reset_done()
                self._new_epoch(fact.epoch, 0, protocol.conditions)
            case facts.SessionRewound():
                protocol.rewind(fact.chunks, fact.conditions)
                self._new_epoch(fact.epoch, fact.chunks, self.start)
            case facts.SessionSuspended():
                pass
            case facts.CleanupFailed():
                _close(protocol, fact.message)
            case facts.SessionClosed():
                _close(protocol, None)
            case facts.SessionOpened():
                raise AssertionError("a life is opened once")

    def _begin(self, fact: ChunkBegun) -> None:
        tick = self.protocol.begin(fact.tick.request_id, fact.tick.event_ids)
        marks = self.protocol.ready(fact.tick)
        self.protocol.show()
        assert tick == fact.tick
        flight = self.protocol.flight
        assert flight is not None
        self.flight = Link(fact, marks, flight.after, flight.floor)
        self.transport_index = fact.transport_index + 1

    def _commit(self, fact: facts.ChunkCommitted) -> None:
        assert self.flight is not None, f"chunk {fact.chunk_index} was not begun"
        tick = self.flight.begun.tick
        asked = (tick.epoch, tick.chunk_index, tick.event_ids)
        assert asked == (fact.epoch, fact.chunk_index, fact.event_ids), f"chunk {tick.chunk_index} was begun"
        self.protocol.commit(tick)
        self.line.append(self.flight)
        self.flight = None

    def _new_epoch(self, epoch: int, chunks: int, start: Conditions) -> None:
        assert self.protocol.epoch == epoch, f"the epoch is {self.protocol.epoch}, not {epoch}"
        self.start, self.flight = start, None
        del self.line[chunks:]


def rebuild(
    history: Iterable[Fact],
    reducers: Mapping[str, Reducer],
    pending_limit: int = 32,
    ancestor: History | None = None,
) -> History:
    """The session as it stands after these facts, the first of which opens it.

    A fork's `ancestor` is the other session's history up to the fork, or beyond it in the same epoch. Raises
    `JournalCorrupt` where a fact can't follow from those before it.
    """
    remaining = iter(history)
    opened = next(remaining, None)
    if not isinstance(opened, facts.SessionOpened):
        raise JournalCorrupt("a session's life begins with its opening")
    spec, origin = opened.spec, opened.origin
    protocol = SessionProtocol(
        opened.session_id,
        opened.world,
        spec.prompt,
        reducers,
        script=spec.script,
        origin=origin,
        pending_limit=pending_limit,
    )
    made = History(opened, protocol, protocol.conditions)
    if ancestor is not None and origin is not None:
        made.start, made.line = ancestor.start, ancestor.line[: origin.chunks]
    for fact in remaining:
        made.follow(fact)
    return made


async def read_history(
    journal: Journal,
    world: str,
    reducers: Mapping[str, Reducer],
    pending_limit: int = 32,
    until: tuple[int, int] | None = None,
) -> History:
    """The history of a life, its ancestors' included.

    `until` an epoch and a number of chunks: its line then begins with these chunks. Raises `JournalCorrupt`,
    `JournalUnavailable`.
    """
    recorded = [record.fact for record in await journal.read(world)]
    if not recorded:
        raise JournalCorrupt(f"the journal knows nothing of {world}")
    ancestor = None
    if isinstance(recorded[0], facts.SessionOpened) and (origin := recorded[0].origin) is not None:
        ancestor = await read_history(
            journal, origin.world, reducers, pending_limit, (origin.epoch, origin.chunks)
        )
    if until is None:
        return rebuild(recorded, reducers, pending_limit, ancestor)
    made = rebuild(recorded[:1], reducers, pending_limit, ancestor)
    for fact in recorded[1:]:
        if made.protocol.epoch == until[0] and len(made.line) >= until[1]:
            break
        made.follow(fact)
    if made.protocol.epoch != until[0] or len(made.line) < until[1]:
        raise JournalCorrupt(f"{world} never had {until[1]} chunks in epoch {until[0]}")
    return made


def _close(protocol: SessionProtocol, failure: str | None) -> None:
    if protocol.state is not SessionState.CLOSING:
        protocol.begin_close()
    protocol.end_close(failure)
