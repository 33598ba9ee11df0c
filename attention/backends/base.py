"""What every attention kernel implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from attention.capabilities import Capabilities, Needs
from attention.masks import Mask

Kernel = Callable[[Tensor, Tensor, Tensor, Mask | None], Tensor]
"""q [B, Sq, Hq, D], k and v [B, Skv, Hkv, D], a checked mask -> contiguous [B, Sq, Hq, D]."""

PartialKernel = Callable[[Tensor, Tensor, Tensor, Mask | None], tuple[Tensor, Tensor]]
"""As `Kernel`, -> attention to these keys alone [B, Sq, Hq, D] and the log of the sum of the exponentials
of their logits [B, Hq, Sq], both in fp32 or wider; -inf there and anything finite in the output where a
row sees none of these keys."""


class Backend(Protocol):
    """One way to compute attention."""

    @property
    def name(self) -> str:
        """What configuration calls it."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can serve."""

    def unavailable(self) -> str | None:
        """Why it can't run on this machine, or None."""

    def bind(self, needs: Needs) -> Kernel:
        """A kernel for requests of exactly this geometry; every decision is taken here, none in the call."""

    def bind_partial(self, needs: Needs) -> PartialKernel:
        """As `bind`, for the part of an attention that a shard of the keys makes up."""
