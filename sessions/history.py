"""What a session is, from its facts alone: the same protocol that wrote them reads them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.api import Reducer
from sessions import facts
from sessions.checkpoint import Checkpoint
from sessions.conditions import Conditions, EventMarks
from sessions.entry import Entry
from sessions.errors import JournalCorrupt, SessionError
from sessions.facts import ChunkBegun, Fact
from sessions.journal import Journal
from sessions.protocol import SessionProtocol
from sessions.snapshots import Point
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
    behind a rewind or fork those of before. Where it was read from a checkpoint on, the first `base` of them
    are only counted: the last of these is the one at `base_point`.

    A chunk that was begun and not committed is in the protocol's flight, and shown: its very tick has to be
    run again. `flight` is its fact.
    """

    opened: facts.SessionOpened
    protocol: SessionProtocol
    start: Conditions  # before the first chunk of `line`
    line: list[Link] = field(default_factory=list)
    flight: Link | None = None
    transport_index: int = 0  # the next chunk's
    count: int = 1  # of facts
    revived: bool = False  # by `Sleepers`
    base: int = 0
    base_floor: int = 0
    base_point: Point | None = None
    base_transport_index: int = 0  # of the first chunk behind `base`

    @property
    def spec(self) -> SessionSpec:
        """What it was opened with, image included."""
        return self.opened.spec

    @property
    def chunks(self) -> int:
        """How many chunks its world has run."""
        return self.base + len(self.line)

    def conditions_at(self, chunks: int) -> Conditions:
        """What was in force when so many chunks of the line, at least `base`, were committed."""
        return self.line[chunks - self.base - 1].after if chunks > self.base else self.start

    def floor_at(self, chunks: int) -> int:
        """The event floor of then."""
        return self.line[chunks - self.base - 1].floor if chunks > self.base else self.base_floor

    def place_at(self, chunks: int) -> tuple[str, int] | None:
        """The world and epoch of the last of so many chunks, at least `base`; None of none."""
        if chunks > self.base:
            tick = self.line[chunks - self.base - 1].begun.tick
            return tick.world, tick.epoch
        return None if self.base_point is None else (self.protocol.world, self.base_point.epoch)

    def on_line(self, point: Point) -> bool:
        """Whether a snapshot of its own world at this point is, or may be, of use to it."""
        if self.base_point is not None and point <= self.base_point:
            return True
        ticks = (link.begun.tick for link in self.line)
        return any(point == Point(tick.epoch, tick.chunk_index + 1) for tick in ticks)

    def go_to(self, checkpoint: Checkpoint) -> None:
        """Pass over the facts up to a checkpoint."""
        standing = checkpoint.standing
        self.protocol.stand(standing)
        self.count = checkpoint.facts
        self.transport_index = self.base_transport_index = checkpoint.transport_index
        self.base, self.base_floor, self.start = standing.chunk_index, standing.floor, standing.conditions
        self.base_point = checkpoint.point

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
                self._new_epoch(fact.epoch, fact.chunks, self.start if fact.chunks else fact.conditions)
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
        assert tick == fact.tick, f"chunk {tick.chunk_index} would have begun in another way"
        marks = self.protocol.ready(fact.tick)
        self.protocol.show()
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
        if 0 < chunks < self.base:
            raise BeforeCheckpoint(
                f"{chunks} chunks were kept, and nothing is known of the first {self.base}"
            )
        if chunks < self.base:
            self.base, self.base_floor, self.base_point, self.line = 0, 0, None, []
        self.start, self.flight = start, None
        del self.line[chunks - self.base :]


class BeforeCheckpoint(Exception):
    """The history was read from a checkpoint on, and what is asked lies before it: read the whole."""


def rebuild(
    history: Iterable[Fact],
    reducers: Mapping[str, Reducer],
    pending_limit: int = 32,
    ancestor: History | None = None,
    checkpoint: Checkpoint | None = None,
) -> History:
    """The session as it stands after these facts, the first of which opens it.

    A fork's `ancestor` is the other session's history up to the fork, or beyond it in the same epoch. With a
    `checkpoint`, the facts behind the first are those since it. Raises `JournalCorrupt` where a fact can't
    follow from those before it, and `BeforeCheckpoint`.
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
    if checkpoint is not None:
        made.go_to(checkpoint)
    elif ancestor is not None and origin is not None:
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
