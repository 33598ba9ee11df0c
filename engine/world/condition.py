"""What the image channels of a block hold: one strategy per kind of checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.image import ImageEncoder, ImageState
from engine.transformer.config import TransformerConfig
from engine.world.state import WorldState


class ImageCondition(Protocol):
    """Gives each block its image latent."""

    def latents(self, state: WorldState) -> tuple[Tensor, ImageState]:
        """The next block's image latent [1, C, F, h, w], and the encoder's state after it."""


class FirstFrame:
    """LingBot's: the encoder's view of [image, zeros...], a constant once its history has flushed."""

    def __init__(self, codec: Codec, frames_per_block: int) -> None:
        self._encoder = ImageEncoder(codec, frames_per_block)

    def latents(self, state: WorldState) -> tuple[Tensor, ImageState]:
        """As the protocol says."""
        return self._encoder.next(state.image)


class LastLatent:
    """The last committed latent frame in every frame of the block; the encoded image before there is one."""

    def __init__(self, codec: Codec, frames_per_block: int) -> None:
        self._codec = codec
        self._frames = frames_per_block

    def latents(self, state: WorldState) -> tuple[Tensor, ImageState]:
        """As the protocol says."""
        last = state.last_latent
        if last is None:
            assert state.image.picture is not None
            last, _ = self._codec.encode(state.image.picture[None, None])
        return last.expand(-1, -1, self._frames, -1, -1), state.image


STRATEGIES: dict[str, Callable[[Codec, int], ImageCondition]] = {
    "first_frame": FirstFrame,
    "last_latent": LastLatent,
}
"""By the transformer config's `image_condition`."""


def with_mask(latents: Tensor, chunks: int, config: TransformerConfig) -> Tensor:
    """Put the mask before a block's image latent: one on the session's latent frame 0 alone."""
    batch, _, frames, height, width = latents.shape
    mask = latents.new_zeros((batch, config.mask_channels, frames, height, width))
    if chunks == 0:
        mask[:, :, 0] = 1
    return torch.cat([mask, latents], dim=1)
