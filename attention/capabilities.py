"""What a backend can do, and what a request needs.

Comparing the two names the first thing that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


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
    zero_rows: bool = False  # some output rows are zeroed after attention
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend serves. An empty `head_dims` means any up to `max_head_dim`."""

    dtypes: frozenset[torch.dtype]
    devices: frozenset[str]
    grouped_queries: bool
    mask_kinds: frozenset[str]
    max_head_dim: int | None = None
    head_dim_multiple: int = 1
    packed: bool = False

    def missing(self, needs: Needs) -> str | None:
        """The first capability that `needs` asks for and this lacks, in words; None where all are there."""
        if needs.device.type not in self.devices:
            return f"device {needs.device.type} (it has {', '.join(sorted(self.devices))})"
        if needs.dtype not in self.dtypes:
            return f"dtype {needs.dtype} (it has {', '.join(sorted(map(str, self.dtypes)))})"
        if needs.heads != needs.kv_heads and not self.grouped_queries:
            return f"grouped queries ({needs.heads} query heads on {needs.kv_heads} K/V heads)"
        unknown = sorted(needs.mask_kind - self.mask_kinds)
        if unknown:
            return f"masks of kind {', '.join(unknown)}"
        if self.max_head_dim is not None and needs.head_dim > self.max_head_dim:
            return f"head dim {needs.head_dim} (at most {self.max_head_dim})"
        if needs.head_dim % self.head_dim_multiple:
            return f"head dim {needs.head_dim} (multiples of {self.head_dim_multiple})"
        if needs.packed and not self.packed:
            return "packed sequences"
        return None
