"""Rotary positions over (latent frame, row, column), interleaved pairs, tables in float64."""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10000.0


def axis_widths(head_dim: int) -> tuple[int, int, int]:
    """Channels of a head that turn with time, height and width: 44, 42, 42 of 128."""
    side = 2 * (head_dim // 6)
    return head_dim - 2 * side, side, side


def rotary_table(
    frames: Tensor, rows: int, columns: int, head_dim: int, device: torch.device | None = None
) -> Tensor:
    """Unit complex numbers that turn the pairs of each token.

    `frames` [F] or [B, F] are absolute latent frame indices of the session, of any size: float64 holds them.
    Returns complex64 [F * rows * columns, head_dim / 2] (with a leading B where `frames` has one).
    """
    positions = frames.to(torch.float64)[..., :, None, None].expand(*frames.shape, rows, columns)
    ys = torch.arange(rows, dtype=torch.float64)[:, None].expand_as(positions)
    xs = torch.arange(columns, dtype=torch.float64).expand_as(positions)
    angles = [
        axis[..., None] * _frequencies(width)
        for axis, width in zip((positions, ys, xs), axis_widths(head_dim), strict=True)
    ]
    angle = torch.cat(angles, dim=-1).flatten(-4, -2)  # [..., F * rows * columns, head_dim / 2]
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64).to(device)


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn the interleaved pairs of the last axis by a complex table that broadcasts to [..., hd / 2]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table).flatten(-2).to(x.dtype)


def _frequencies(width: int) -> Tensor:
    return BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
