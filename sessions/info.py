"""A session as an operator or its owner sees it."""

from __future__ import annotations

from dataclasses import dataclass

from sessions.observer import ChunkTimes
from sessions.spec import SessionSpec
from sessions.state import SessionState


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A snapshot of one session; `spec` is without its image."""

    session_id: str
    world: str  # the session instance
    state: SessionState
    reason: str  # why it failed, or could not be cleaned up; else empty
    spec: SessionSpec
    opened_at: float  # Unix seconds
    epoch: int
    chunk_index: int  # the next one: so many are committed in this epoch
    event_floor: int
    pending_event_ids: tuple[int, ...]
    streaming: bool
    waiting: bool  # reset without a prompt yet: the next chunk waits for one, or for a reset with resume
    last_chunk: ChunkTimes | None
