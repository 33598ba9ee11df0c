"""What passes between the server and the worker: frozen, picklable, answers named by their call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.api import (
    EncodedChunk,
    EngineError,
    ModelCard,
    OpenWorld,
    StageTimes,
    Tick,
    WorldLedger,
    WorldSnapshot,
)

# Server to worker


@dataclass(frozen=True, slots=True)
class Boot:
    """The first message: `factory` names a function, `module:function`, that makes the host."""

    factory: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Open:
    """Make a world."""

    call: int
    request: OpenWorld

    @property
    def world(self) -> str:
        """The world's id."""
        return self.request.world


@dataclass(frozen=True, slots=True)
class Restore:
    """Make a world from a snapshot."""

    call: int
    request: OpenWorld
    snapshot: bytes = field(repr=False)

    @property
    def world(self) -> str:
        """The world's id."""
        return self.request.world


@dataclass(frozen=True, slots=True)
class Fork:
    """Make a world from another one. It waits in the line of its source, which is its `world`."""

    call: int
    world: str
    request: OpenWorld


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Copy a world; its file is packed beside the device."""

    call: int
    world: str


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read what a world's caches hold."""

    call: int
    world: str


@dataclass(frozen=True, slots=True)
class Run:
    """Compute the next chunk of a world."""

    call: int
    tick: Tick
    slack_s: float | None

    @property
    def world(self) -> str:
        """The world's id."""
        return self.tick.world


@dataclass(frozen=True, slots=True)
class Reset:
    """Bring a world back to its first frame."""

    call: int
    world: str


@dataclass(frozen=True, slots=True)
class Close:
    """Release a world."""

    call: int
    world: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Roll back the chunk that `call` asked for, unless its pixels have left."""

    call: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Finish the job in flight and end."""


JobRequest = Open | Restore | Fork | Snapshot | Inspect | Run | Reset | Close
Request = JobRequest | Cancel | Stop

# Worker to server


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is loaded; requests are welcome."""

    card: ModelCard


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The model can't be loaded, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """An open, restore, fork, reset or close succeeded."""

    call: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A world's snapshot."""

    call: int
    snapshot: WorldSnapshot


@dataclass(frozen=True, slots=True)
class Inspected:
    """A world's ledger."""

    call: int
    ledger: WorldLedger


@dataclass(frozen=True, slots=True)
class Failed:
    """A call ended in an error; for a chunk, nothing of it is left."""

    call: int
    error: EngineError


@dataclass(frozen=True, slots=True)
class Ready:
    """A chunk's pixels. `request_id` is its tick's, which no other has."""

    call: int
    request_id: str
    media: EncodedChunk
    times: StageTimes


@dataclass(frozen=True, slots=True)
class Committed:
    """A chunk's end. `request_id` is its tick's."""

    call: int
    request_id: str
    commit_ms: float


@dataclass(frozen=True, slots=True)
class Usage:
    """K/V pages; sent when it changes."""

    pages_in_use: int = 0
    pages_total: int = 0


Answer = Loaded | LoadFailed | Done | Taken | Inspected | Failed | Ready | Committed | Usage
