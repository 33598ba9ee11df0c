"""Muon: momentum whose updates are made orthogonal, for the matrices of the transformer's layers.

Newton-Schulz runs in bf16 where the CPU multiplies bf16 matrices fast (AMX), in fp32 elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration (source: Muon, Jordan et al. 2024)


class Muon(torch.optim.Optimizer):
    """SGD with Nesterov momentum, orthogonalised per matrix and scaled to AdamW's usual update size."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.compute_dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix, in batches of one shape."""
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for param in group["params"]:
                if param.grad is not None:
                    by_shape[param.shape].append((param, self._momentum(param, group["momentum"])))
            for shape, pairs in by_shape.items():
                updates = orthogonal(torch.stack([update for _, update in pairs]), self.compute_dtype)
                size = 0.2 * max(shape) ** 0.5
                for (param, _), update in zip(pairs, updates, strict=True):
                    param.mul_(1 - group["lr"] * group["weight_decay"]).add_(
                        update, alpha=-group["lr"] * size
                    )

    def _momentum(self, param: Tensor, momentum: float) -> Tensor:
        assert param.grad is not None
        state = self.state[param]
        buffer: Tensor = state.setdefault("momentum", torch.zeros_like(param))
        buffer.lerp_(param.grad, 1 - momentum)
        return param.grad.lerp(buffer, momentum)


def orthogonal(matrices: Tensor, dtype: torch.dtype, iterations: int = 5) -> Tensor:
    """[N, r, c] -> about the nearest semi-orthogonal matrices, by Newton-Schulz."""
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.mT if tall else matrices
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
    a, b, c = COEFFICIENTS
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    out: Tensor = x.float()
    return out.mT if tall else out
