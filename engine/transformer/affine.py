"""Linear layers as products want them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """x W + b, with the weight transposed: [in, out]."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, *linears: nn.Linear) -> Affine:
        """Several layers on the same input become one; a single one is not copied."""
        if len(linears) == 1:
            return cls(linears[0].weight.t(), linears[0].bias)
        weight = torch.cat([linear.weight for linear in linears])
        return cls(weight.t(), torch.cat([linear.bias for linear in linears]))

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
