"""The image latent of a session: the encoder's answer to [picture, blank, blank, ...], block by block."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.codec.codec import Codec, History


@dataclass(frozen=True, slots=True)
class ImageState:
    """Where a session's image latent stands; never changed in place.

    `picture` [3, H, W] in -1..1 waits for the first block. `blanks` counts the blank latent frames so far,
    and `constant` is every further block's latent once the encoder has forgotten the picture.
    """

    height: int
    width: int
    picture: Tensor | None
    history: History = ()
    blanks: int = 0
    constant: Tensor | None = None


class ImageEncoder:
    """Streams image latents; stateless, so that worlds can share it."""

    def __init__(self, codec: Codec, frames_per_block: int = 3) -> None:
        self.codec = codec
        self.frames_per_block = frames_per_block

    def start(self, picture: Tensor) -> ImageState:
        """The state before the first block of a session that begins with `picture` [3, H, W] in -1..1."""
        return ImageState(picture.shape[1], picture.shape[2], picture)

    def next(self, state: ImageState) -> tuple[Tensor, ImageState]:
        """The next block's image latent [1, C, frames_per_block, h, w], and the state after it."""
        if state.constant is not None:
            return state.constant, state
        given = state.picture is not None
        new = self.frames_per_block - given
        device = None if state.picture is None else state.picture.device
        blank = torch.zeros(1, 4 * new, 3, state.height, state.width, device=device)
        frames = blank if state.picture is None else torch.cat([state.picture[None, None], blank], dim=1)
        latents, history = self.codec.encode(frames, state.history)
        settled = latents if not given and state.blanks >= self.codec.flush_frames else None
        history = () if settled is not None else history
        after = ImageState(state.height, state.width, None, history, state.blanks + new, settled)
        return latents, after
