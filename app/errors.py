"""The one table of errors: what each exception is called on the wire, over HTTP and at a socket's close."""

from __future__ import annotations

from dataclasses import dataclass

from app import refusals
from app.fields import start_field, with_field
from engine import api
from sessions import errors


@dataclass(frozen=True, slots=True)
class Fault:
    """Wire code, HTTP status, WebSocket close code, and whether the same request may work later."""

    code: str
    status: int
    close: int
    retryable: bool = False


TABLE: dict[type[Exception], Fault] = {
    # What the edge refuses
    refusals.Refusal: Fault("refused", 400, 1008),
    refusals.NotJson: Fault("not_json", 400, 1007),
    refusals.BinaryFrame: Fault("binary_frame", 400, 1003),
    refusals.MessageTooLarge: Fault("message_too_large", 413, 1009),
    refusals.WrongMediaType: Fault("wrong_media_type", 415, 1008),
    refusals.InvalidField: Fault("invalid_request", 422, 1008),
    refusals.ImageUnavailable: Fault("image_unavailable", 422, 1008, retryable=True),
    refusals.UnknownModel: Fault("unknown_model", 404, 1008),
    refusals.UnknownScene: Fault("unknown_scene", 404, 1008),
    refusals.NothingRecorded: Fault("nothing_recorded", 404, 1008),
    refusals.StartTimeout: Fault("start_timeout", 408, 4408, retryable=True),
    refusals.Stalled: Fault("stalled", 408, 4408, retryable=True),
    refusals.Unauthorized: Fault("unauthorized", 401, 1008),
    refusals.OriginRefused: Fault("origin_refused", 403, 1008),
    refusals.HostRefused: Fault("host_refused", 403, 1008),
    refusals.NotReady: Fault("not_ready", 503, 1013, retryable=True),
    # What the session layer raises
    errors.SessionError: Fault("session_error", 500, 1011),
    errors.InvalidSpec: Fault("invalid_request", 422, 1008),
    errors.InvalidEvent: Fault("invalid_event", 422, 1008),
    errors.InvalidControl: Fault("invalid_control", 422, 1008),
    errors.EventIdConflict: Fault("event_id_conflict", 409, 1008),
    errors.StaleEvent: Fault("stale_event", 409, 1008),
    errors.QueueFull: Fault("queue_full", 429, 1013, retryable=True),
    errors.UnknownSession: Fault("unknown_session", 404, 4404),
    errors.SessionExists: Fault("session_exists", 409, 1008),
    errors.SessionTombstoned: Fault("cleanup_failed", 409, 1011, retryable=True),
    errors.SessionClosed: Fault("session_closed", 410, 4410),
    errors.SessionExpired: Fault("session_expired", 410, 4410),
    errors.SessionFailed: Fault("session_failed", 409, 1011),
    errors.WrongState: Fault("wrong_state", 409, 1008),
    errors.ReplayDiverged: Fault("replay_diverged", 500, 1011),
    errors.EchoMismatch: Fault("echo_mismatch", 500, 1011),
    errors.NotStepped: Fault("not_stepped", 409, 1008),
    errors.AlreadyPlaying: Fault("already_playing", 409, 1008),
    errors.SessionSuspended: Fault("session_suspended", 409, 1013, retryable=True),
    errors.NoSuchChunk: Fault("no_such_chunk", 409, 1008),
    errors.ChunksGone: Fault("chunks_gone", 409, 1008),
    errors.TakenOver: Fault("taken_over", 409, 4409),
    errors.WatcherTooSlow: Fault("watcher_too_slow", 409, 4408, retryable=True),
    errors.ChunkAborted: Fault("chunk_cancelled", 409, 1011, retryable=True),
    errors.CapacityExceeded: Fault("capacity_exceeded", 503, 1013, retryable=True),
    errors.QuotaExceeded: Fault("quota_exceeded", 429, 1008, retryable=True),
    errors.RateLimited: Fault("rate_limited", 429, 1008, retryable=True),
    errors.QuotaSpent: Fault("quota_spent", 429, 1008),
    errors.EngineUnavailable: Fault("engine_unavailable", 503, 1013, retryable=True),
    errors.WorldLost: Fault("engine_unavailable", 503, 1013, retryable=True),
    errors.EngineTimeout: Fault("engine_timeout", 504, 1011, retryable=True),
    errors.Draining: Fault("draining", 503, 1001, retryable=True),
    errors.JournalError: Fault("journal_error", 500, 1011),
    errors.JournalUnavailable: Fault("journal_unavailable", 503, 1011, retryable=True),
    errors.SequenceConflict: Fault("journal_conflict", 409, 1011),
    errors.JournalCorrupt: Fault("journal_corrupt", 500, 1011),
    errors.StorageUnavailable: Fault("storage_unavailable", 503, 1011, retryable=True),
    # What an engine raises
    api.EngineError: Fault("engine_error", 500, 1011),
    api.WorldRefused: Fault("invalid_request", 422, 1008),
    api.SnapshotRefused: Fault("snapshot_refused", 500, 1011),
    api.ControlRefused: Fault("invalid_control", 422, 1008),
    api.CapacityReached: Fault("capacity_exceeded", 503, 1013, retryable=True),
    api.UnknownWorld: Fault("unknown_world", 500, 1011),
    api.ChunkCancelled: Fault("chunk_cancelled", 409, 1011, retryable=True),
    api.ChunkFailed: Fault("chunk_failed", 500, 1011),
    api.EngineLost: Fault("engine_lost", 503, 1011, retryable=True),
    api.CloseFailed: Fault("cleanup_failed", 500, 1011, retryable=True),
}
INTERNAL = Fault("internal_error", 500, 1011)
MAPPED = (refusals.Refusal, errors.SessionError, api.EngineError)

_CLOSE_BY_CODE = {fault.code: fault.close for fault in TABLE.values()}


def fault_of(error: BaseException) -> Fault:
    """The row of `error`, or of its nearest base; `INTERNAL` for what is in none of the trees."""
    return next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), INTERNAL)


def field_of(error: BaseException) -> str | None:
    """The field that `error` names, if it names one."""
    field = _inner_field(error)
    return None if field is None else start_field(field)


@dataclass(frozen=True, slots=True)
class Hint:
    """For who is refused for now: when to ask again, and what place in line there would have been."""

    retry_after_s: float | None = None
    position: int | None = None
    depth: int | None = None


def hint_of(error: BaseException) -> Hint:
    """What the error says of trying again."""
    if isinstance(error, errors.CapacityExceeded):
        return Hint(error.retry_after_s, error.position, error.depth)
    return Hint(error.retry_after_s) if isinstance(error, errors.QuotaExceeded) else Hint()


def message_of(error: BaseException) -> str:
    """What a client is told; nothing of an unexpected error's insides."""
    if not isinstance(error, MAPPED):
        return "the server failed; its log says why"
    return with_field(str(error), _inner_field(error), field_of(error))


def close_code(code: str) -> int:
    """The close code that belongs to a wire code."""
    return _CLOSE_BY_CODE.get(code, INTERNAL.close)


def _inner_field(error: BaseException) -> str | None:
    named = (refusals.Refusal, errors.SessionError, api.WorldRefused, api.ControlRefused)
    return error.field if isinstance(error, named) else None
