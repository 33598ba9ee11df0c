"""Every error of the session layer, in one tree.

SessionError
+- InvalidSpec           what a start asks can't be served: names the field
+- InvalidEvent          an event's shape is wrong: names the field
|  +- InvalidControl     the model's reducer refused a control: names the field
+- EventIdConflict       the id is taken by another payload
+- StaleEvent            a never-seen id below the event floor
+- QueueFull             too many pending events; may be tried again
+- UnknownSession        no session has this id
+- SessionExists         a living session has this id
+- SessionTombstoned     closed, but its memory could not be released: the id is blocked, close may be retried
+- SessionClosed         closing or closed
|  +- SessionExpired     it has lived as long as a session may
+- SessionFailed         the engine failed it: reset or close
|  +- EchoMismatch       the engine's answer is not for the tick that was asked: nothing is committed
|  +- ReplayDiverged     a chunk that was run again came out differently: the model is another
+- WrongState            not now
|  +- NotStepped         chunks are asked for one by one only in stepped mode
|  +- AlreadyPlaying     the session has a stream
|  +- SessionSuspended   it was suspended while this was asked; may be tried again
|  +- NoSuchChunk        a point of its history that it has not reached: names the field
|  +- ChunksGone         undelivered chunks that are not kept any more
+- TakenOver             a newer connection plays the session
+- WatcherTooSlow        a watcher that reads slower than the session plays
+- ChunkAborted          the chunk was rolled back: cancelled, or swept away by a reset or close
+- CapacityExceeded      no room for another session now; may be tried again
+- QuotaExceeded         the owner has as much as it may at once; may be tried again
|  +- RateLimited        it sends events faster than it may; may be tried again
|  +- QuotaSpent         it has had all that it may ever have
+- EngineUnavailable     the engine is starting, restarting or gone; may be tried again
|  +- WorldLost          the engine lost this world: it can be made again
+- EngineTimeout         the engine did not answer a reset or close in time; may be tried again
+- Draining              the service takes no new sessions any more
+- StorageUnavailable    a snapshot or recording could not be written or read (full disk); may be tried again
+- JournalError          the journal's part
   +- JournalUnavailable it could not be written or read (full disk, lost database); may be tried again
   +- SequenceConflict   another writer was first
   +- JournalCorrupt     what it holds can't be understood

HTTP statuses and close codes are the edge's business.
"""

from __future__ import annotations

from typing import ClassVar


class SessionError(Exception):
    """Base: a message for the client, its wire `code`, and whether trying again can help."""

    code: ClassVar[str] = "session_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field  # a path into what the client sent, e.g. `controls[0].data.mode`


class InvalidSpec(SessionError):
    """What a start asks can't be served."""

    code = "invalid_request"


class InvalidEvent(SessionError):
    """An event whose shape is wrong."""

    code = "invalid_event"


class InvalidControl(InvalidEvent):
    """A control that the model's reducer refused; `schema` is the one that the control claims."""

    code = "invalid_control"

    def __init__(self, message: str, *, field: str | None = None, schema: str | None = None) -> None:
        super().__init__(message, field=field)
        self.schema = schema


class EventIdConflict(SessionError):
    """The same id with another payload."""

    code = "event_id_conflict"


class StaleEvent(SessionError):
    """A never-seen id below the event floor."""

    code = "stale_event"

    def __init__(self, event_id: int, floor: int) -> None:
        super().__init__(f"event {event_id} came too late: event floor is {floor}", field="event_id")
        self.event_id = event_id
        self.floor = floor


class QueueFull(SessionError):
    """Too many pending events."""

    code = "queue_full"
    retryable = True


class UnknownSession(SessionError):
    """No session has this id."""

    code = "unknown_session"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"no session {session_id!r}", field="session_id")


class SessionExists(SessionError):
    """A living session has this id."""

    code = "session_exists"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} exists: close it first, or choose another id", field="session_id"
        )


class SessionTombstoned(SessionError):
    """Closed, but its memory could not be released: the id is blocked until a retried close succeeds."""

    code = "cleanup_failed"
    retryable = True


class SessionClosed(SessionError):
    """The session is closing or closed."""

    code = "session_closed"


class SessionExpired(SessionClosed):
    """The session has lived as long as a session may."""

    code = "session_expired"


class SessionFailed(SessionError):
    """The engine failed the session: it can be reset or closed."""

    code = "session_failed"


class EchoMismatch(SessionFailed):
    """The engine's answer is not for the tick that was asked."""

    code = "echo_mismatch"


class ReplayDiverged(SessionFailed):
    """A chunk that was run again came out differently."""

    code = "replay_diverged"


class WrongState(SessionError):
    """The session is not in a state that allows this."""

    code = "wrong_state"


class NotStepped(WrongState):
    """Chunks are asked for one by one only in stepped mode."""

    code = "not_stepped"


class AlreadyPlaying(WrongState):
    """The session has a stream already."""

    code = "already_playing"


class SessionSuspended(WrongState):
    """The session was suspended while this was asked."""

    code = "session_suspended"
    retryable = True


class NoSuchChunk(WrongState):
    """A point of its history that the session has not reached."""

    code = "no_such_chunk"


class ChunksGone(WrongState):
    """Undelivered chunks that are not kept any more."""

    code = "chunks_gone"


class TakenOver(SessionError):
    """A newer connection plays the session."""

    code = "taken_over"


class WatcherTooSlow(SessionError):
    """A watcher that reads slower than the session plays."""

    code = "watcher_too_slow"
    retryable = True


class ChunkAborted(SessionError):
    """The chunk was rolled back: the session is as after its last committed one."""

    code = "chunk_cancelled"
    retryable = True


class CapacityExceeded(SessionError):
    """No room for another session now. Where there is a line, the `position` that waiting would have had in
    it, 1 is next, behind `depth` others in all; `retry_after_s` is when asking again may help.
    """

    code = "capacity_exceeded"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        depth: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.position = position
        self.depth = depth
        self.retry_after_s = retry_after_s


class QuotaExceeded(SessionError):
    """The owner has as much as it may at once; `retry_after_s` is when asking again may help."""

    code = "quota_exceeded"
    retryable = True

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(QuotaExceeded):
    """The owner sends events faster than it may."""

    code = "rate_limited"


class QuotaSpent(QuotaExceeded):
    """The owner has had all that it may ever have."""

    code = "quota_spent"
    retryable = False


class EngineUnavailable(SessionError):
    """The engine is starting, restarting or gone."""

    code = "engine_unavailable"
    retryable = True


class WorldLost(EngineUnavailable):
    """The engine lost this world."""


class EngineTimeout(SessionError):
    """The engine did not answer a reset or close in time."""

    code = "engine_timeout"
    retryable = True


class Draining(SessionError):
    """The service takes no new sessions any more."""

    code = "draining"
    retryable = True


class StorageUnavailable(SessionError):
    """A snapshot or recording could not be written or read."""

    code = "storage_unavailable"
    retryable = True


class JournalError(SessionError):
    """Base of the journal's errors."""

    code = "journal_error"


class JournalUnavailable(JournalError):
    """The journal could not be written or read."""

    code = "journal_unavailable"
    retryable = True


class SequenceConflict(JournalError):
    """Another writer appended first."""

    code = "journal_conflict"


class JournalCorrupt(JournalError):
    """What the journal holds can't be understood."""

    code = "journal_corrupt"
