"""What a start asks of a session; the wire has validated it against the model card."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from engine.api import Control


class Mode(StrEnum):
    """Who decides when the next chunk runs."""

    CONTINUOUS = "continuous"  # chunks follow one another, paced to media time
    STEPPED = "stepped"  # one chunk per event


class Format(StrEnum):
    """How the edge packages a chunk."""

    M4S = "m4s"
    ANNEXB = "annexb"
    JPEG = "jpeg"

    @property
    def media(self) -> Literal["h264", "jpeg"]:
        """What the engine has to encode for it."""
        return "jpeg" if self is Format.JPEG else "h264"


@dataclass(frozen=True, slots=True)
class Pacing:
    """How continuous mode keeps to media time; seconds.

    A chunk begins when its viewer has no more than `lead_s` left to play (None: one chunk's length, so that
    from an input to its display at most two chunks pass). A stream that falls behind shifts its clock, so
    that it doesn't run ahead later; `max_lag_s` of the delay it makes good instead.
    """

    to_media_time: bool = True
    lead_s: float | None = None
    max_lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """Sizes in pixels, fps in frames per second; exactly one of image (PNG, JPEG or WebP bytes) and scene."""

    prompt: str
    width: int
    height: int
    fps: int
    seed: int
    image: bytes | None = field(default=None, repr=False)
    scene: str | None = None
    mode: Mode = Mode.CONTINUOUS
    format: Format = Format.M4S
    num_frames: int | None = None  # the stream ends there; None: when it is stopped
    flow_shift: float | None = None
    session_id: str | None = None  # None: one is made
    script: Control | None = None  # the camera script to open with
    pacing: Pacing = Pacing()
    owner: str | None = None  # the id of the API key, for quotas
    token_digest: str | None = None  # of the stream token, so that it outlives the server
