"""Where a camera stands and what its rays pass over, as features per patch: the `session` camera input.

A checkpoint that knows a place by heart is told the camera's pose in that place, whose ground repeats with
a period in x and z. Each patch gets the Fourier features of points along its central ray (and of the camera
itself, the point at distance 0), so that a linear map of them can say what stands at those points. Height
is left out: a world made of camera keys never leaves the ground.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SessionRays:
    """The parameters of the features, as the transformer's config.json states them under `session_rays`.

    `period` and `distances` are in world units; `harmonics` is the largest length of a wave vector (in
    waves per period) and `azimuths` the largest multiple of the azimuth.
    """

    period: float = 2.5
    harmonics: float = 5.0
    distances: tuple[float, ...] = (0.0, 0.125, 0.25, 0.4, 0.6, 0.85, 1.1)
    azimuths: int = 12
    waves: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reach = int(self.harmonics)
        waves = tuple(
            (i, j)
            for i in range(reach + 1)
            for j in range(-reach, reach + 1)
            if (i > 0 or j > 0) and math.hypot(i, j) <= self.harmonics
        )
        object.__setattr__(self, "waves", waves)

    @property
    def channels(self) -> int:
        """How many features a patch gets."""
        return 2 * len(self.waves) * len(self.distances) + 2 * self.azimuths + 3

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SessionRays:
        """Read what `to_json` wrote."""
        return cls(data["period"], data["harmonics"], tuple(data["distances"]), data["azimuths"])

    def to_json(self) -> dict[str, Any]:
        """Plain values for config.json."""
        return {
            "period": self.period,
            "harmonics": self.harmonics,
            "distances": list(self.distances),
            "azimuths": self.azimuths,
        }


def session_features(poses: Tensor, intrinsics: Tensor, grid: tuple[int, int], config: SessionRays) -> Tensor:
    """Features [1, C, F, rows, columns] of `poses` [F, 4, 4], camera-to-world in the place's coordinates.

    `intrinsics` [F, 4] holds fx, fy, cx, cy in units of patches, `grid` the patch rows and columns. The
    axes are x right, y down, z forward; all features lie in -1..1.
    """
    rows, columns = grid
    poses, intrinsics = poses.to(torch.float64), intrinsics.to(torch.float64)
    x = (torch.arange(columns) + 0.5 - intrinsics[:, None, 2:3]) / intrinsics[:, None, 0:1]  # [F, 1, columns]
    y = (torch.arange(rows)[:, None] + 0.5 - intrinsics[:, None, 3:4]) / intrinsics[:, None, 1:2]
    frames = len(poses)
    local = torch.stack(
        [x.expand(frames, rows, -1), y.expand(frames, -1, columns), torch.ones(frames, rows, columns)], -1
    )
    ray = torch.einsum("fij,fyxj->fyxi", poses[:, :3, :3], local)
    level = ray[..., 0::2].norm(dim=-1).clamp(min=1e-6)
    elevation = torch.atan2(-ray[..., 1], level)
    heading = ray[..., 0::2] / level[..., None]  # [F, rows, columns, 2]
    azimuth = torch.atan2(heading[..., 0], heading[..., 1])
    turns = azimuth[..., None] * torch.arange(1, config.azimuths + 1)
    distances = torch.tensor(config.distances, dtype=torch.float64)
    points = poses[:, None, None, None, 0:3:2, 3] + heading[..., None, :] * distances[:, None]
    waves = torch.tensor(config.waves, dtype=torch.float64).T * (2 * math.pi / config.period)
    phases = (points @ waves).flatten(3)
    pitch = torch.stack([elevation, torch.sin(2 * elevation), torch.cos(2 * elevation)], dim=-1)
    features = torch.cat([phases.sin(), phases.cos(), turns.sin(), turns.cos(), pitch], dim=-1)
    return features.permute(3, 0, 1, 2)[None].to(torch.float32)
