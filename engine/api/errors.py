"""What an engine refuses or fails with."""

from __future__ import annotations


class EngineError(Exception):
    """Base of every error an engine raises.

    EngineError
    +- WorldRefused     the open request can't be served: names the field
    +- SnapshotRefused  the snapshot is damaged, or not of such a world: says what came and what is expected
    +- ControlRefused   a control payload can't be applied: names the field
    +- CapacityReached  no room now; may be tried again
    +- UnknownWorld     no such world (never opened, or closed)
    +- ChunkCancelled   the chunk was cancelled; the world is as after its last committed chunk
    +- ChunkFailed      the model or a codec raised; the world is rolled back and may be reset or closed
    +- EngineLost       the worker is gone, and its worlds with it
    +- CloseFailed      memory could not be released yet; close may be retried
    """


class WorldRefused(EngineError):
    """The open request can't be served."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)  # both, so that it survives pickling
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return self.message


class SnapshotRefused(EngineError):
    """The snapshot is damaged, or of another format, model, geometry or opening: an older one may do."""


class ControlRefused(EngineError):
    """A control payload can't be applied. `field` is a path, e.g. `data.transitions[2].actions`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return self.message


class CapacityReached(EngineError):
    """No room for another world now."""


class UnknownWorld(EngineError):
    """No such world."""


class ChunkCancelled(EngineError):
    """The chunk was cancelled before its pixels left."""


class ChunkFailed(EngineError):
    """The model or a codec raised while it made a chunk."""


class EngineLost(EngineError):
    """The worker process is gone, and its worlds with it."""


class CloseFailed(EngineError):
    """The world's memory could not be released yet."""
