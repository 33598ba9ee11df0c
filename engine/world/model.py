"""A loaded model: weights and codecs that all worlds share and none changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from engine.camera.intrinsics import default_at_size
from engine.camera.motion import Lens
from engine.checkpoint.index import Card
from engine.codec.codec import Codec
from engine.sampler.schedule import Schedule
from engine.text.encoder import TextEncoder
from engine.transformer.equality import AnyTransformer
from engine.transformer.modulation import Modulation
from engine.world.condition import STRATEGIES, ImageCondition
from engine.world.geometry import LATENT_STRIDE, geometry_of
from kvcache.geometry import Geometry

CLEAN = 0.0  # the time of the commit forward


@dataclass(eq=False)
class Model:
    """`revision` names the weights and how they are computed with: two models with the same one give the
    same worlds.
    """

    transformer: AnyTransformer
    codec: Codec
    text_encoder: TextEncoder
    schedule: Schedule
    card: Card
    revision: str
    _modulations: dict[float, Modulation] = field(default_factory=dict)

    @cached_property
    def image_condition(self) -> ImageCondition:
        """What fills the image channels of a block."""
        config = self.transformer.config
        return STRATEGIES[config.image_condition](self.codec, config.num_frames_per_block)

    @property
    def dtype(self) -> torch.dtype:
        """What the transformer computes in."""
        return self.transformer.dtype

    @property
    def device(self) -> torch.device:
        """Where the transformer lies."""
        return self.transformer.device

    @torch.inference_mode()
    def modulation(self, timestep: float) -> Modulation:
        """What a timestep sets in every layer; computed once for each of the few that are used."""
        found = self._modulations.get(timestep)
        if found is None:
            time = torch.tensor(timestep, dtype=torch.float64, device=self.device)
            found = self._modulations[timestep] = self.transformer.time(time)
        return found

    def lens(self, width: int, height: int) -> Lens:
        """A picture size and what action mode sees it through."""
        return Lens(width, height, default_at_size(self.card.intrinsics, width, height))

    def geometry(self, width: int, height: int) -> Geometry:
        """What the caches of a world of this picture size weigh, its text and codec histories included."""
        state_bytes = self.codec.history_bytes(width, height)
        tokens = self.text_encoder.length
        return geometry_of(self.transformer.config, self.dtype, width, height, tokens, state_bytes)

    def noise(self, generator: torch.Generator, width: int, height: int) -> Tensor:
        """One draw for one block: fp32 [1, C, F, h, w]."""
        config = self.transformer.config
        size = (height // LATENT_STRIDE, width // LATENT_STRIDE)
        shape = (1, config.out_channels, config.num_frames_per_block, *size)
        return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)
