"""What the server asks of an engine: a world, and a chunk of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.api.controls import Control, FrozenJson


@dataclass(frozen=True, slots=True)
class OpenWorld:
    """Ask for a world. `world` is the session *instance*: a fresh id for each life of a session."""

    world: str
    prompt: str
    width: int
    height: int
    fps: int
    seed: int
    image: bytes | None = None  # an encoded image (PNG, JPEG, WebP); exactly one of image and scene
    scene: str | None = None
    media: Literal["h264", "jpeg"] = "h264"
    flow_shift: float | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The immutable snapshot that one chunk is computed from; every answer carries it back unchanged."""

    session_id: str
    world: str
    epoch: int
    request_id: str
    chunk_index: int
    event_ids: tuple[int, ...]
    prompt: str
    controls: tuple[Control, ...] = ()  # sticky: the last accepted control of each track
    conditioning: Mapping[str, FrozenJson] = field(default_factory=dict)  # track -> the reducer's block
