"""What a session is, from its facts alone: the same protocol that wrote them reads them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.api import Reducer
from sessions import facts
from sessions.entry import Entry
from sessions.errors import JournalCorrupt, SessionError
from sessions.facts import Fact
from sessions.protocol import SessionProtocol
from sessions.state import SessionState


def rebuild(
    history: Iterable[Fact], reducers: Mapping[str, Reducer], pending_limit: int = 32
) -> SessionProtocol:
    """The protocol as it stands after these facts, the first of which opens the session.

    A chunk that was begun and not committed is in flight, and shown: its very tick has to be run again.
    Raises `JournalCorrupt` where a fact can't follow from those before it.
    """
    remaining = iter(history)
    opened = next(remaining, None)
    if not isinstance(opened, facts.SessionOpened):
        raise JournalCorrupt("a session's life begins with its opening")
    spec = opened.spec
    protocol = SessionProtocol(
        opened.session_id,
        opened.world,
        spec.prompt,
        reducers,
        script=spec.script,
        pending_limit=pending_limit,
    )
    for number, fact in enumerate(remaining, 1):
        try:
            _follow(protocol, fact)
        except (SessionError, AssertionError) as error:
            raise JournalCorrupt(f"fact {number} does not follow from those before it: {error}") from error
    return protocol


def _follow(protocol: SessionProtocol, fact: Fact) -> None:
    match fact:
        case facts.EventAccepted():
            protocol.enqueue(Entry(fact.event, fact.name))
        case facts.ChunkBegun():
            _begin(protocol, fact)
        case facts.ChunkCommitted():
            _commit(protocol, fact)
        case facts.SessionFailed():
            protocol.fail(fact.message)
        case facts.SessionReset():
            protocol.reset(fact.resume)
            protocol.reset_done()
            assert protocol.epoch == fact.epoch, f"the epoch is {protocol.epoch}, not {fact.epoch}"
        case facts.CleanupFailed():
            _close(protocol, fact.message)
        case facts.SessionClosed():
            _close(protocol, None)
        case facts.SessionOpened():
            raise AssertionError("a life is opened once")


def _begin(protocol: SessionProtocol, fact: facts.ChunkBegun) -> None:
    tick = protocol.begin(fact.tick.request_id, fact.tick.event_ids)
    protocol.ready(fact.tick)
    protocol.show()
    assert tick == fact.tick


def _commit(protocol: SessionProtocol, fact: facts.ChunkCommitted) -> None:
    assert protocol.flight is not None, f"chunk {fact.chunk_index} was not begun"
    tick = protocol.flight.tick
    asked = (tick.epoch, tick.chunk_index, tick.event_ids)
    assert asked == (fact.epoch, fact.chunk_index, fact.event_ids), f"chunk {tick.chunk_index} was begun"
    protocol.commit(tick)


def _close(protocol: SessionProtocol, failure: str | None) -> None:
    if protocol.state is not SessionState.CLOSING:
        protocol.begin_close()
    protocol.end_close(failure)
