"""Tells the renderer's pictures from a decoder's: the adversary in `train_decoder`."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

SEEN = 3  # consecutive pictures judged at once, so that flicker is seen
WIDTH = 48


class Critic(nn.Module):
    """Scores for patches of three consecutive pictures: high is true, low is drawn.

    It begins on 2x2 patches of pixels, which is where a drawn edge differs, at a quarter of the cost.
    """

    def __init__(self) -> None:
        super().__init__()
        sizes = [(12 * SEEN, WIDTH, 3, 1), (WIDTH, 64, 4, 2), (64, 64, 3, 1), (64, 1, 3, 1)]
        self.layers = nn.ModuleList(
            [spectral_norm(nn.Conv2d(i, o, kernel, stride, padding=1)) for i, o, kernel, stride in sizes]
        )

    def forward(self, clips: Tensor) -> Tensor:
        """[B, T, 3, H, W] -> [B * T / 3, 1, H/4, W/4]; T is a multiple of three."""
        batch, time = clips.shape[:2]
        patches = F.pixel_unshuffle(clips.flatten(0, 1), 2)
        x = patches.reshape(batch * time // SEEN, -1, *patches.shape[-2:])
        x = x.contiguous(memory_format=torch.channels_last)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return cast(Tensor, self.layers[-1](x)).float()


def critic_loss(true: Tensor, drawn: Tensor) -> Tensor:
    """Hinge loss of the critic's scores."""
    return F.relu(1 - true).mean() + F.relu(1 + drawn).mean()
