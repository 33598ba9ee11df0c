"""Where an engine stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EngineState(StrEnum):
    """Where the engine stands; only `ready` takes work."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What an operator sees of an engine."""

    state: EngineState
    reason: str  # why it is not ready; empty when it is
    worlds: int
    queue_depth: int  # chunks waiting or running
    pages_in_use: int
    pages_total: int
