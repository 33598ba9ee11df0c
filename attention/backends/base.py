"""What every attention kernel implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from attention.capabilities import Capabilities, Needs
from attention.masks import Mask

Kernel = Callable[[Tensor, Tensor, Tensor, Mask | None], Tensor]
"""q [B, Sq, Hq, D], k and v [B, Skv, Hkv, D], a checked mask -> [B, Sq, Hq, D]."""


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
