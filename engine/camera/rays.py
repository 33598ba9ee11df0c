"""The ray embedding: per pixel the origin and direction of its ray, frame to frame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.camera.algebra import Pose
from engine.camera.integrate import MOVE_STEP
from engine.camera.intrinsics import Intrinsics

Scaling = Literal["unit", "max"]
UNSHUFFLE = 8
SMALLEST_STEP = 1e-8


def deltas(anchor: Pose, poses: Sequence[Pose]) -> Tensor:
    """`inv(previous) current` of each pose, where the first follows `anchor`: float64 [F, 4, 4]."""
    chain = torch.tensor([anchor, *poses], dtype=torch.float64)
    relative = torch.linalg.inv(chain[0]) @ chain
    steps: Tensor = torch.linalg.inv(relative[:-1]) @ relative[1:]
    return steps


def scaled(moves: Tensor, scaling: Scaling) -> Tensor:
    """Translations [F, 3] with a full step at length 1 (`unit`), or the sequence's largest at 1 (`max`)."""
    if scaling == "unit":
        return moves / MOVE_STEP
    largest = moves.norm(dim=-1).max()
    return moves / largest if largest > SMALLEST_STEP else moves


def ray_embedding(
    anchor: Pose,
    poses: Sequence[Pose],
    intrinsics: Sequence[Intrinsics],
    width: int,
    height: int,
    scaling: Scaling = "unit",
) -> Tensor:
    """Rays of a block (or of a whole trajectory) whose previous pose is `anchor`.

    `intrinsics` are in pixels of the target, one per pose. Returns fp32 [1, 384, F, height/8, width/8],
    channels [origin xyz, direction xyz] unshuffled in the order (c, dy, dx). Computed in float64.
    """
    motion = deltas(anchor, poses)  # [F, 4, 4]
    moves = scaled(motion[:, :3, 3], scaling)
    turned = motion[:, :3, :3] @ _directions(intrinsics, width, height)  # [F, 3, H * W]
    rays = torch.empty((len(poses), 6, height, width))
    rays[:, :3] = moves[:, :, None, None]
    rays[:, 3:] = (turned / _length(turned)).view(-1, 3, height, width)
    return F.pixel_unshuffle(rays, UNSHUFFLE).transpose(0, 1).unsqueeze(0).contiguous()


def _directions(intrinsics: Sequence[Intrinsics], width: int, height: int) -> Tensor:
    """[3, H * W] where all frames have the same intrinsics, else [F, 3, H * W]."""
    if len(set(intrinsics)) == 1:
        return _pixel_directions(intrinsics[0], width, height)
    return torch.stack([_pixel_directions(one, width, height) for one in intrinsics])


def _length(vectors: Tensor) -> Tensor:
    """[..., 3, n] -> [..., 1, n]; a norm over so short an axis is slow on a CPU."""
    squares = vectors * vectors
    return (squares[..., 0:1, :] + squares[..., 1:2, :] + squares[..., 2:3, :]).sqrt()


@lru_cache(maxsize=16)
def _pixel_directions(intrinsics: Intrinsics, width: int, height: int) -> Tensor:
    fx, fy, cx, cy = intrinsics
    ys, xs = torch.meshgrid(
        torch.arange(height, dtype=torch.float64) + 0.5,
        torch.arange(width, dtype=torch.float64) + 0.5,
        indexing="ij",
    )
    directions = torch.stack([(xs - cx) / fx, (ys - cy) / fy, torch.ones_like(xs)]).flatten(1)
    return directions / _length(directions)
