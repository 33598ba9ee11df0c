"""How exactly the device computes: set once, when a model is loaded, and part of what a model is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import torch

CUBLAS_WORKSPACE: Final = ":4096:8"  # of the two with which cuBLAS promises the same bytes, the faster


@dataclass(frozen=True, slots=True)
class Numerics:
    """Everything that is the operator's choice; by default what repeats exactly and rounds least.

    `tf32`: fp32 products and convolutions on a GPU may round their inputs to 10 bits. `compiled`: see
    `engine.transformer.compiled`.
    """

    tf32: bool = False
    compiled: bool = False

    def apply(self, device: torch.device) -> None:
        """Set torch up, in this process, before anything computes on `device`.

        On a GPU: no search for the fastest kernel, which may choose another one each time, and kernels that
        give the same bytes each time; an operation that has none is named in the log, once. On a CPU torch's
        own settings do that already.
        """
        torch.backends.cudnn.allow_tf32 = self.tf32
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        # nothing here reads what nobody wrote
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(device.type == "cuda", warn_only=True)
        if device.type == "cuda":
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACE)

    def mark(self, device: torch.device, compiled: bool) -> str:
        """What these settings add to a model's revision: nothing where the bytes are the default ones."""
        tf32 = " tf32" if self.tf32 and device.type == "cuda" else ""
        return tf32 + (" compiled" if compiled else "")
