"""What a session tells its client, as frozen messages in the order in which they are to be sent."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api import EncodedChunk, StageTimes, Tick
from sessions.errors import InvalidControl, SessionError


@dataclass(frozen=True, slots=True)
class ChunkOutput:
    """One chunk of video. Event ids are the client's own strings, or the integer as text.

    started: applied first in this chunk; active: in force during it; completed: replaced with it by a later
    one (every event is completed once at most).
    """

    tick: Tick
    media: EncodedChunk
    times: StageTimes
    previous_commit_ms: float | None  # of the chunk before; None for the first of an epoch
    started_event_ids: tuple[str, ...]
    active_event_ids: tuple[str, ...]
    completed_event_ids: tuple[str, ...]
    transport_index: int  # counts the session's chunks across resets: 0, 1, 2 ...
    media_time: float  # of the first frame, in seconds since the epoch began
    keyframe: bool = True  # every chunk is a closed group of pictures

    @property
    def size(self) -> int:
        """Bytes of media."""
        return sum(map(len, self.media.frames))


@dataclass(frozen=True, slots=True)
class InteractionQueued:
    """Validated and durable.

    It will take effect at the next chunk boundary (again the same: no new effect).
    """

    event_id: str


@dataclass(frozen=True, slots=True)
class InteractionRejected:
    """A bad interaction; the stream goes on. `schema` is that of a control that was refused."""

    event_id: str | None
    code: str
    message: str
    field: str | None = None
    retryable: bool = False
    schema: str | None = None

    @classmethod
    def of(cls, event_id: str | None, error: SessionError) -> InteractionRejected:
        """What the client hears of this error in its event."""
        schema = error.schema if isinstance(error, InvalidControl) else None
        return cls(event_id, error.code, error.message, error.field, error.retryable, schema)


@dataclass(frozen=True, slots=True)
class ResetDone:
    """The world is back at its first frame; these pending events were dropped."""

    epoch: int
    discarded_event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rewound:
    """The world is back where this chunk is the next; older chunks of the stream are out of date."""

    epoch: int
    chunk_index: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """A stream goes on for a client that came back: with this transport index, in this epoch."""

    from_transport_index: int
    epoch: int
    chunk_index: int  # the next one that is computed


@dataclass(frozen=True, slots=True)
class Evicted:
    """The world made room for another's; it is brought back when its next chunk is due."""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something the client should know; the stream goes on."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Waiting for room: 1 is next."""

    position: int
    depth: int


@dataclass(frozen=True, slots=True)
class Done:
    """Terminal: the stream ended as asked, after so many chunks."""

    chunks: int
    stopped: bool  # by stop or close; False: num_frames reached


@dataclass(frozen=True, slots=True)
class Failed:
    """Terminal: the stream can't go on."""

    code: str
    message: str
    retryable: bool

    @classmethod
    def of(cls, error: SessionError) -> Failed:
        """What the client hears of this error."""
        return cls(error.code, error.message, error.retryable)


Terminal = Done | Failed
Output = (
    ChunkOutput
    | InteractionQueued
    | InteractionRejected
    | ResetDone
    | Rewound
    | Resumed
    | Evicted
    | Warned
    | QueuePosition
    | Done
    | Failed
)
