"""What the journal records of a session: facts, never commands. What a session is follows from them alone.

Modules say `from sessions import facts` and `facts.ChunkCommitted(...)`: engine and errors have namesakes.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.api import Tick
from sessions.conditions import Conditions
from sessions.events import Event
from sessions.spec import SessionSpec


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fork leaves the life of another session: after `chunks` chunks of one of its epochs.

    `conditions` are those of that moment; ids of events below `floor` are the other's.
    """

    session_id: str
    world: str
    epoch: int
    chunks: int
    floor: int
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The first fact of every life; `world` is the session instance, a fresh id for each life."""

    session_id: str
    world: str
    spec: SessionSpec
    origin: Origin | None = None  # None: it begins at its first frame


@dataclass(frozen=True, slots=True)
class EventAccepted:
    """Durable before it is acknowledged. `name` is the client's own string for the id."""

    event: Event
    digest: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ChunkBegun:
    """A chunk's pixels are about to leave: from here on, this very tick has to be committed."""

    tick: Tick
    frames_digest: str  # SHA-256 of the raw RGB frames
    transport_index: int


@dataclass(frozen=True, slots=True)
class ChunkCommitted:
    """The chunk is part of the world."""

    epoch: int
    chunk_index: int
    event_ids: tuple[int, ...]
    frames_digest: str


@dataclass(frozen=True, slots=True)
class SessionFailed:
    """The engine failed the session, at this chunk or between chunks."""

    epoch: int
    chunk_index: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SessionReset:
    """Prompt, controls, pending events and world are gone; the opening ones are back where it resumes."""

    epoch: int  # the new one
    resume: bool


@dataclass(frozen=True, slots=True)
class SessionRewound:
    """The world is back after `chunks` chunks, in the conditions of then; what came later is gone."""

    epoch: int  # the new one
    chunks: int
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    """The world was given up for later: snapshot and facts imply it."""

    reason: str


@dataclass(frozen=True, slots=True)
class CleanupFailed:
    """The world's memory could not be released: the id is blocked."""

    message: str


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The last fact of every life."""

    reason: str


Fact = (
    SessionOpened
    | EventAccepted
    | ChunkBegun
    | ChunkCommitted
    | SessionFailed
    | SessionReset
    | SessionRewound
    | SessionSuspended
    | CleanupFailed
    | SessionClosed
)
