"""Between latent grids and tokens: the patch order of a Conv3d whose stride is its kernel."""

from __future__ import annotations

from torch import Tensor


def patchify(grid: Tensor, patch: tuple[int, int, int]) -> Tensor:
    """[B, C, F, H, W] -> [B, F/pt * H/ph * W/pw, C * pt * ph * pw], features in the order (C, pt, ph, pw)."""
    b, c, f, h, w = grid.shape
    pt, ph, pw = patch
    split = grid.reshape(b, c, f // pt, pt, h // ph, ph, w // pw, pw)
    return split.permute(0, 2, 4, 6, 1, 3, 5, 7).reshape(b, -1, c * pt * ph * pw)


def patchify_last(grid: Tensor, patch: tuple[int, int, int]) -> Tensor:
    """[1, C, F, H, W] -> [F/pt * H/ph * W/pw, pt * ph * pw * C], features in the order (pt, ph, pw, C).

    Copies up to ten times faster than `patchify`, as runs of C are long; see `features_last` for the weights.
    """
    _, c, f, h, w = grid.shape
    pt, ph, pw = patch
    split = grid.reshape(c, f // pt, pt, h // ph, ph, w // pw, pw)
    return split.permute(1, 3, 5, 2, 4, 6, 0).reshape(-1, pt * ph * pw * c)


def features_last(weight: Tensor, channels: int, patch: tuple[int, int, int]) -> Tensor:
    """A weight [D, C * pt * ph * pw] on `patchify`'s features -> the one on `patchify_last`'s."""
    return weight.reshape(len(weight), channels, *patch).permute(0, 2, 3, 4, 1).flatten(1)


def unpatchify(tokens: Tensor, grid: tuple[int, int, int], patch: tuple[int, int, int]) -> Tensor:
    """[B, f*h*w, pt*ph*pw*C] with features in the order (pt, ph, pw, C) -> [B, C, f*pt, h*ph, w*pw]."""
    f, h, w = grid
    pt, ph, pw = patch
    b = tokens.shape[0]
    split = tokens.reshape(b, f, h, w, pt, ph, pw, -1)
    return split.permute(0, 7, 1, 4, 2, 5, 3, 6).reshape(b, -1, f * pt, h * ph, w * pw)
