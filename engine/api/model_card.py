"""What the loaded model is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
