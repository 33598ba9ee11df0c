"""Linear layers as products want them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """x W + b, with the weight transposed in memory: [in, out].

    Up to a third faster on few tokens than a transposed view (18 x 64 x 64 to 72 x 768 x 192, one AVX2
    thread), and no slower on many, for the price of a copy.
    """

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, *linears: nn.Linear) -> Affine:
        """Several layers on the same input become one."""
        weight = torch.cat([linear.weight.t() for linear in linears], dim=1)
        return cls(weight, torch.cat([linear.bias for linear in linears]))

    def __call__(self, x: Tensor) -> Tensor:
        """[S, in] -> [S, out]."""
        return torch.addmm(self.bias, x, self.weight)


@dataclass(frozen=True, slots=True, eq=False)
class AffineStack:
    """One affine map per layer, on inputs of its own: weight [L, in, out], bias [L, 1, out]."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, affines: list[Affine]) -> AffineStack:
        """Stack the maps of all layers."""
        weight = torch.stack([affine.weight for affine in affines])
        return cls(weight, torch.stack([affine.bias for affine in affines])[:, None])

    def __call__(self, x: Tensor) -> Tensor:
        """[L, S, in] -> [L, S, out]."""
        return torch.baddbmm(self.bias, x, self.weight)
