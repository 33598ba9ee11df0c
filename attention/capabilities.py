"""What a backend can do, and what a request needs.

Comparing the two names the first thing that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attention.declaration import Declaration
from attention.packing import Packing

MASK_KINDS = frozenset({"q_valid", "kv_valid", "pair_bool", "pair_additive", "causal", "packed"})


@dataclass(frozen=True, slots=True)
class Needs:
    """The geometry of one request: everything that a backend's answer may depend on, and no contents."""

    batch: int
    query_length: int
    kv_length: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device
    scale: float
    causal: bool = False
    mask_kind: frozenset[str] = frozenset()
    packing: Packing | None = None
    partial: bool = False  # the log-sum-exp of the logits is wanted too


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend serves. `partial` names the devices on which it also gives the log-sum-exp."""

    dtypes: frozenset[torch.dtype]
    devices: frozenset[str]
    grouped_queries: bool
    mask_kinds: frozenset[str]
    max_head_dim: int | None = None
    head_dim_multiple: int = 1
    packed: bool = False
    partial: frozenset[str] = frozenset()

    def missing_for(self, declaration: Declaration) -> str | None:
        """The first capability that a layer asks for whatever its requests are; None where all are there."""
        heads, kv_heads, head_dim = declaration.heads, declaration.kv_heads, declaration.head_dim
        if heads != kv_heads and not self.grouped_queries:
            return f"grouped queries ({heads} query heads on {kv_heads} K/V heads)"
        if self.max_head_dim is not None and head_dim > self.max_head_dim:
            return f"head dim {head_dim} (at most {self.max_head_dim})"
        if head_dim % self.head_dim_multiple:
            return f"head dim {head_dim} (multiples of {self.head_dim_multiple})"
        return None

    def missing(self, needs: Needs) -> str | None:
        """The first capability that a request asks for besides; None where all are there."""
        if needs.device.type not in self.devices:
            return f"device {needs.device.type} (it has {', '.join(sorted(self.devices))})"
        if needs.dtype not in self.dtypes:
            return f"dtype {needs.dtype} (it has {', '.join(sorted(map(str, self.dtypes)))})"
        unknown = sorted(needs.mask_kind - self.mask_kinds)
        if unknown:
            return f"masks of kind {', '.join(unknown)}"
        if needs.packing is not None and not self.packed:
            return "packed sequences"
        if needs.partial and needs.device.type not in self.partial:
            return f"the log-sum-exp on {needs.device.type}, which sharded K/V need"
        return None
