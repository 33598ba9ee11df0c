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
    return RotaryGrid(head_dim).table(frames.cpu(), rows, columns).to(device)


class RotaryGrid:
    """Tables of one head width; what does not change with time is computed once per grid."""

    def __init__(self, head_dim: int) -> None:
        time, height, width = axis_widths(head_dim)
        self._time = frequencies(time)
        self._height, self._width = frequencies(height), frequencies(width)
        self._grids: dict[tuple[int, int], Tensor] = {}

    def table(self, frames: Tensor, rows: int, columns: int) -> Tensor:
        """As `rotary_table`."""
        over_grid = self._grids.get((rows, columns))
        if over_grid is None:
            over_grid = self._grids[rows, columns] = self._over_grid(rows, columns)
        over_time = turns(frames.to(torch.float64)[..., None] * self._time)  # [..., F, time / 2]
        shape = (*frames.shape, rows * columns)
        parts = [over_time[..., None, :].expand(*shape, -1), over_grid.expand(*shape, -1)]
        return torch.cat(parts, dim=-1).flatten(-3, -2)

    def _over_grid(self, rows: int, columns: int) -> Tensor:
        """[rows * columns, (height + width) / 2]."""
        ys = turns(torch.arange(rows, dtype=torch.float64)[:, None] * self._height)
        xs = turns(torch.arange(columns, dtype=torch.float64)[:, None] * self._width)
        down = ys[:, None].expand(rows, columns, -1)
        along = xs[None].expand(rows, columns, -1)
        return torch.cat([down, along], dim=-1).flatten(0, 1)


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn the interleaved pairs of the last axis by a complex table that broadcasts to [..., hd / 2]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table).flatten(-2).to(x.dtype)


def turns(angles: Tensor) -> Tensor:
    """Unit complex64 numbers of float64 angles."""
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def frequencies(width: int) -> Tensor:
    """Angles per position of an axis, float64 [width / 2]."""
    return BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
