"""What crosses the border between the server and whatever runs the model.

Everything here is a frozen message or a protocol, in the standard library alone, and nothing assumes that
both sides share a machine: no object identity, no clock reading, no file path. The spawned worker process
implements `Engine` today; a Ray actor can implement the same one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

FrozenJson = None | bool | int | float | str | tuple["FrozenJson", ...] | Mapping[str, "FrozenJson"]
"""JSON after acceptance: lists are tuples, objects are read-only mappings, every number is finite."""


# ----------------------------------------------------------------------------------------------------
# What a client may ask of a model


@dataclass(frozen=True, slots=True)
class Scene:
    """A first frame that ships with a checkpoint."""

    name: str
    title: str
    prompt: str
    image: bytes | None = field(default=None, repr=False)  # a PNG, JPEG or WebP to show before play


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What the loaded model is: sizes in pixels, rates in frames per second, lengths in pixel frames."""

    name: str
    width: int
    height: int
    fps: int
    size_multiple: int  # width and height are multiples of this
    max_pixels: int  # width * height at most
    first_chunk_frames: int  # 9
    chunk_frames: int  # 12
    frames_per_block: int  # latent frames, 3
    steps: int  # probes per block
    capacity: int  # sessions that fit at once
    scenes: tuple[Scene, ...]
    control_schemas: Mapping[str, tuple[str, ...]]  # track -> accepted schemas
    description: str = ""
    flow_shift: float | None = None  # of its noise levels; None: they are fixed


@dataclass(frozen=True, slots=True)
class Control:
    """One control of an event, e.g. track `camera`, schema `lingbot.camera_actions.v1`."""

    track: str
    schema: str
    data: FrozenJson


class Reducer(Protocol):
    """Turns the controls of one track into the conditioning of each block.

    Pure: a state is JSON-like and never changed in place, so a rollback keeps the old one. A reducer imports
    no torch and runs in the server, where a payload is validated at acceptance.
    """

    track: str
    schemas: tuple[str, ...]

    def initial(self) -> FrozenJson:
        """The state of a fresh or reset session."""

    def validate(self, control: Control) -> None:
        """Raise `ControlRefused` where `control` could not be applied; looks at the payload alone."""

    def apply(self, state: FrozenJson, control: Control) -> FrozenJson:
        """The state after an accepted control."""

    def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
        """Consume one block: the next state, and its conditioning (what `Tick.conditioning` carries)."""

    def spent(self, state: FrozenJson) -> bool:
        """Whether the last control is done, e.g. a target is reached: it has no part in later blocks."""


# ----------------------------------------------------------------------------------------------------
# Requests


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


# ----------------------------------------------------------------------------------------------------
# Answers


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """The pixels of one chunk, encoded once by a fresh encoder.

    `frames` holds one access unit (Annex B, SPS/PPS on the first) or one JPEG per pixel frame. `first_frame`
    is the media time of the first, in frames since the epoch began. `digest` is the SHA-256 of the raw RGB
    frames.
    """

    kind: Literal["h264", "jpeg"]
    codec: str  # RFC 6381, e.g. avc1.42c01e; "mjpeg" for jpeg
    width: int
    height: int
    fps: int
    first_frame: int
    frames: tuple[bytes, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Milliseconds that a chunk spent in each stage of the engine."""

    queue_ms: float
    denoise_ms: float
    decode_ms: float
    encode_ms: float


@dataclass(frozen=True, slots=True)
class ChunkReady:
    """Pixels first: sent before the commit forward runs. From here on the chunk can't be cancelled."""

    tick: Tick
    media: EncodedChunk
    times: StageTimes


@dataclass(frozen=True, slots=True)
class ChunkCommitted:
    """The world has moved on: its K/V, histories, pose and generator are those after this chunk."""

    tick: Tick
    commit_ms: float


@dataclass(frozen=True, slots=True)
class WorldSnapshot:
    """A world after its last committed chunk, as one file (safetensors) that says what it is of.

    It restores in any engine with the same model and kind of device. `chunks` is how many were committed
    since the epoch began: the index of the next one.
    """

    world: str
    chunks: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WorldLedger:
    """What a world's caches hold, and the facts that it follows from, in the order in which they came true.

    Each fact is its name (`fact`: opened, build_began, published, ...) and its fields. A closed world has one
    summary. `balanced`: over the whole device, the facts fold to the live state, whose bytes are those that
    the allocators have out.
    """

    world: str
    facts: tuple[Mapping[str, str | int], ...]
    live_bytes: int  # published and not released
    balanced: bool


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


# ----------------------------------------------------------------------------------------------------
# Errors


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


# ----------------------------------------------------------------------------------------------------
# The engine


class Engine(Protocol):
    """Owns one device and its worlds. All calls are made from one event loop; none blocks it."""

    async def start(self) -> ModelCard:
        """Load the model. Raises `EngineError` with the reason where it can't be loaded."""

    async def stop(self) -> None:
        """Release everything; idempotent."""

    def status(self) -> EngineStatus:
        """Where the engine stands now; never waits."""

    async def open_world(self, request: OpenWorld) -> None:
        """Make a world. Raises `WorldRefused`, `CapacityReached`, `EngineLost`."""

    def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        """Compute the next chunk: yields one `ChunkReady`, then one `ChunkCommitted`.

        `slack_s` is how long the viewer can still play, in seconds; the smallest is served first, and without
        one worlds take turns. Raises `ChunkCancelled`, `ChunkFailed`, `UnknownWorld`, `EngineLost`; then
        nothing of the chunk is left.
        """

    async def cancel_chunk(self, world: str) -> None:
        """Ask that the chunk in flight be rolled back; without one, or once its pixels left, does nothing."""

    async def reset_world(self, world: str) -> None:
        """Back to the first frame: generator reseeded, pose, caches and histories empty. Waits for the job in
        flight. Raises `UnknownWorld`, `EngineLost`."""

    async def close_world(self, world: str) -> None:
        """Release a world after its job in flight and its encoding; idempotent. Raises `CloseFailed`."""

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        """All of a world as of its last commit; waits for the job in flight, and the chunks asked for before.
        Raises `UnknownWorld`, `EngineLost`."""

    async def restore_world(self, request: OpenWorld, snapshot: bytes) -> None:
        """Make a world that goes on bit for bit as the one that `snapshot` was taken of would.

        `request` is that world's own, but for the world's name, the prompt, fps and media: a reset brings
        back the first frame from it. Raises `SnapshotRefused` and what `open_world` raises; then there is no
        world.
        """

    async def fork_world(self, source: str, request: OpenWorld) -> None:
        """Make a world that is as `source` is after its last committed chunk, and goes on by itself; nothing
        of the source changes. `request` as in `restore_world`. Waits for the source's job in flight.
        Raises `UnknownWorld` where there is no source, and what `restore_world` raises."""

    async def read_ledger(self, world: str) -> WorldLedger:
        """What the caches of a world hold; waits for its job in flight. Of a closed world what is remembered.
        Raises `UnknownWorld`, `EngineLost`.
        """
