"""A session as an operator or its owner sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sessions.observer import ChunkTimes
from sessions.protocol import SessionProtocol
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


def info_of(
    protocol: SessionProtocol,
    spec: SessionSpec,
    opened_at: float,
    *,
    asleep: bool,
    streaming: bool = False,
    last_chunk: ChunkTimes | None = None,
) -> SessionInfo:
    """Where a session stands; `asleep`: no engine has its world."""
    suspended = asleep and protocol.state is SessionState.ACTIVE
    return SessionInfo(
        session_id=protocol.session_id,
        world=protocol.world,
        state=SessionState.SUSPENDED if suspended else protocol.state,
        reason=protocol.reason,
        spec=spec if spec.image is None else replace(spec, image=None),
        opened_at=opened_at,
        epoch=protocol.epoch,
        chunk_index=protocol.chunk_index,
        event_floor=protocol.floor,
        pending_event_ids=protocol.pending,
        streaming=streaming,
        waiting=protocol.waiting,
        last_chunk=last_chunk,
    )
