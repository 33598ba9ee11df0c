"""What crosses the border between the server and whatever runs the model.

Everything here is a frozen message or a protocol, in the standard library alone, and nothing assumes that
both sides share a machine: no object identity, no clock reading, no file path. The spawned worker process
implements `Engine` today; a Ray actor can implement the same one.
"""

from engine.api.chunks import ChunkCommitted, ChunkReady, EncodedChunk, StageTimes
from engine.api.controls import Control, FrozenJson, Reducer
from engine.api.engine import Engine
from engine.api.errors import (
    CapacityReached,
    ChunkCancelled,
    ChunkFailed,
    CloseFailed,
    ControlRefused,
    EngineError,
    EngineLost,
    SnapshotRefused,
    UnknownWorld,
    WorldRefused,
)
from engine.api.model_card import ModelCard, Scene
from engine.api.requests import OpenWorld, Tick
from engine.api.status import EngineState, EngineStatus
from engine.api.worlds import WorldLedger, WorldSnapshot

__all__ = [
    "CapacityReached",
    "ChunkCancelled",
    "ChunkCommitted",
    "ChunkFailed",
    "ChunkReady",
    "CloseFailed",
    "Control",
    "ControlRefused",
    "EncodedChunk",
    "Engine",
    "EngineError",
    "EngineLost",
    "EngineState",
    "EngineStatus",
    "FrozenJson",
    "ModelCard",
    "OpenWorld",
    "Reducer",
    "Scene",
    "SnapshotRefused",
    "StageTimes",
    "Tick",
    "UnknownWorld",
    "WorldLedger",
    "WorldRefused",
    "WorldSnapshot",
]
