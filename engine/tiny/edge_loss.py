"""How a decoder is told to draw edges as sharp as the truth's, and to move them as much."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

PATCH = 32  # pixels; energies are compared in patches that overlap by half
LEAST_PATCH, LEAST_PICTURE = 3e-3, 1e-3  # energies below these count as flat


def laplacian(pixels: Tensor) -> Tensor:
    """[..., H, W] -> [..., H - 2, W - 2]: four times a pixel less its neighbours."""
    across = pixels[..., 1:-1, :-2] + pixels[..., 1:-1, 2:]
    return 4 * pixels[..., 1:-1, 1:-1] - across - pixels[..., :-2, 1:-1] - pixels[..., 2:, 1:-1]


def edge_losses(drawn: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Of clips [B, T, 3, H, W] in -1..1: mean absolute error of the Laplacian, and mean squared log ratio
    of its energy, over patches and over clips.

    The first alone is least where a doubtful edge is drawn soft; the second takes its energy to the truth's.
    """
    drawn_edges, true_edges = laplacian(drawn), laplacian(truth)
    absolute = (drawn_edges - true_edges).abs().mean()
    drawn_energy, true_energy = drawn_edges.square().mean(dim=2), true_edges.square().mean(dim=2)
    patches = log_ratio(patch_means(drawn_energy), patch_means(true_energy), LEAST_PATCH)
    clips = log_ratio(drawn_energy.mean(dim=(1, 2, 3)), true_energy.mean(dim=(1, 2, 3)), LEAST_PICTURE)
    return absolute, 0.25 * patches.square().mean() + 2 * clips.square().mean()


def motion_losses(drawn: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Of clips [B, T, 3, H, W] in -1..1: mean absolute error of the difference to the picture before, and
    mean squared log ratio of its energy, picture by picture.

    A decoder draws four pictures at once; without the second, they move too little, and jump between fours.
    """
    drawn_steps, true_steps = drawn.diff(dim=1), truth.diff(dim=1)
    absolute = (drawn_steps - true_steps).abs().mean()
    drawn_energy, true_energy = (steps.square().mean(dim=(2, 3, 4)) for steps in (drawn_steps, true_steps))
    return absolute, log_ratio(drawn_energy, true_energy, LEAST_PICTURE).square().mean()


def patch_means(energy: Tensor) -> Tensor:
    """[B, T, h, w] -> the means of its patches."""
    return F.avg_pool2d(energy, PATCH, PATCH // 2)


def log_ratio(drawn: Tensor, truth: Tensor, least: float) -> Tensor:
    """log(drawn / truth), where neither counts as less than nothing much."""
    return torch.log((drawn + least) / (truth + least))
