"""The example's model: a codec, a text encoder and a transformer, in whatever form suits them."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from attention.declaration import Computation, Declaration
from attention.layer import Attention
from engine.world.caches import LayerSlots

BLOCK, HEADS, HEAD_DIM, CELL = 3, 2, 16, 8
DIM = HEADS * HEAD_DIM


class CloudModel:
    """Latents are 8x8 means; one layer of attention over the block and what the K/V remember."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inward = torch.randn(3, DIM, generator=generator)
        self.q, self.k, self.v = torch.randn(3, DIM, DIM, generator=generator) / DIM**0.5
        self.outward = torch.randn(DIM, 3, generator=generator) / DIM
        self.attend = Attention(Declaration(Computation.SELF, "clouds.self", HEADS, HEADS, HEAD_DIM))

    def encode(self, image: NDArray[np.uint8]) -> Tensor:
        """RGB [H, W, 3] -> latent [3, h, w]."""
        return F.avg_pool2d(torch.from_numpy(image).permute(2, 0, 1).float() / 255, CELL)

    def decode(self, latents: Tensor, first: bool) -> NDArray[np.uint8]:
        """[F, 3, h, w] -> RGB frames: 1 of the very first latent frame, 4 of every other."""
        frames = latents.repeat_interleave(4, dim=0)[3 if first else 0 :]
        pixels = F.interpolate(frames, scale_factor=CELL).mul(255).round().to(torch.uint8)
        return pixels.permute(0, 2, 3, 1).contiguous().numpy()

    def text(self, prompt: str) -> Tensor:
        """[DIM], the same for the same prompt."""
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big") >> 1
        return torch.randn(DIM, generator=torch.Generator().manual_seed(seed))

    def forward(self, latents: Tensor, text: Tensor, slots: LayerSlots) -> Tensor:
        """[F, 3, h, w] -> the same, and their K/V into `slots`."""
        x = latents.permute(0, 2, 3, 1).reshape(1, -1, 3) @ self.inward + text  # [1, S, DIM]
        q, k, v = ((x @ weight).unflatten(-1, (HEADS, HEAD_DIM)) for weight in (self.q, self.k, self.v))
        mixed = self.attend(q, *slots.extend(k, v)).flatten(-2) @ self.outward
        frames, _, height, width = latents.shape
        change = mixed.reshape(frames, height, width, 3).permute(0, 3, 1, 2)
        return (latents + 0.1 * change.tanh()).clamp(0, 1)
