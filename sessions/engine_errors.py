"""The one place where the engine's errors become the session layer's."""

from __future__ import annotations

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    CloseFailed,
    ControlRefused,
    EngineError,
    EngineLost,
    UnknownWorld,
    WorldRefused,
)
from sessions.errors import (
    CapacityExceeded,
    ChunkAborted,
    EngineUnavailable,
    InvalidControl,
    InvalidSpec,
    SessionError,
    SessionFailed,
    SessionTombstoned,
)


def as_session_error(error: EngineError) -> SessionError:
    """What a client is told of an engine's error; `ChunkFailed` and what is unknown fail the session."""
    message = str(error) or type(error).__name__
    if isinstance(error, WorldRefused):
        return InvalidSpec(message, field=error.field)
    if isinstance(error, ControlRefused):
        return InvalidControl(message, field=error.field)
    if isinstance(error, UnknownWorld):
        return SessionFailed(f"its world is gone, maybe with an engine that was restarted: {message}")
    for kind, translated in _TRANSLATIONS.items():
        if isinstance(error, kind):
            return translated(message)
    return SessionFailed(message)


_TRANSLATIONS: dict[type[EngineError], type[SessionError]] = {
    CapacityReached: CapacityExceeded,
    ChunkCancelled: ChunkAborted,
    CloseFailed: SessionTombstoned,
    EngineLost: EngineUnavailable,
}
