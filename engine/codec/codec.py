"""What the engine asks of a video codec: causal in time, 8x smaller in space and 4x in time."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

History = tuple[Tensor, ...]
"""What a causal encoder or decoder remembers of the frames before; empty before the first.

Never changed in place: a rollback keeps the old one, a snapshot saves its tensors.
"""


class Codec(Protocol):
    """Pixels are RGB in -1..1, latents are normalised by the checkpoint's mean and standard deviation.

    Calls on consecutive pieces, each with the history of the one before, give bit for bit what one call on
    the whole gives.
    """

    @property
    def channels(self) -> int:
        """Latent channels."""

    @property
    def flush_frames(self) -> int:
        """Latent frames of zeros after which the encoder's output no longer depends on what came before."""

    def encode(self, frames: Tensor, history: History = ()) -> tuple[Tensor, History]:
        """[1, n, 3, H, W], n = 1 + 4k without a history and 4k with one -> mean [1, C, T, H/8, W/8]."""

    def decode(self, latents: Tensor, history: History = ()) -> tuple[Tensor, History]:
        """[1, C, T, h, w] -> [1, n, 3, 8h, 8w], where n is 1 + 4(T - 1) without a history and 4T with one."""

    def history_bytes(self, width: int, height: int) -> int:
        """What encoder and decoder remember together at a picture size, in bytes."""
