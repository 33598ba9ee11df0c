"""Everything that a world is, beside its K/V: one immutable value per committed chunk."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.camera.integrate import Camera
from engine.codec.codec import History
from engine.codec.image import ImageState
from kvcache.view import ViewState


@dataclass(frozen=True, slots=True)
class WorldState:
    """A world after its last committed chunk. Nothing in it is ever changed in place."""

    chunks: int
    prompt: str
    camera: Camera
    generator: Tensor  # the state of the noise generator
    image: ImageState
    decoder: History
    last_latent: Tensor | None  # [1, C, 1, h, w], the last committed latent frame


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of a world: what a file must hold so that a revived world goes on bit for bit."""

    state: WorldState
    view: ViewState
