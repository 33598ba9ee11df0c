"""What a chunk is answered with: its pixels, and then that it is committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.api.requests import Tick


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
    """Pixels first: sent as soon as they are encoded, which waits for no commit pass, and before the commit.
    From here on the chunk can't be cancelled.
    """

    tick: Tick
    media: EncodedChunk
    times: StageTimes


@dataclass(frozen=True, slots=True)
class ChunkCommitted:
    """The world has moved on: its K/V, histories, pose and generator are those after this chunk."""

    tick: Tick
    commit_ms: float
