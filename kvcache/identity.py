"""What a conditioning value is a value *of*: two that differ in any field are never taken for one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Representation:
    """How keys and values lie in memory: one pair of tensors per layer.

    `layout` names the axes: BSND is [batch, length, heads, head_dim], BNSD is [batch, heads, length,
    head_dim].
    """

    layers: int
    batch: int
    length: int
    heads: int
    head_dim: int
    dtype: str  # as in `kvcache.view.DTYPES`
    device: str
    layout: Literal["BSND", "BNSD"] = "BNSD"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of one layer's keys, and of its values."""
        if self.layout == "BSND":
            return (self.batch, self.length, self.heads, self.head_dim)
        return (self.batch, self.heads, self.length, self.head_dim)


@dataclass(frozen=True, slots=True)
class Identity:
    """What one cache of one branch holds, and what it was made by."""

    cache: str  # e.g. "text"
    branch: int  # 0, and 1 for the other side of classifier-free guidance
    condition_revision: str  # which prompt, e.g. its digest
    projection: str  # what projected it, e.g. "transformer"
    projection_revision: str  # which weights of it
    adapter_revision: str  # which adapters upon them; empty for none
    representation: Representation

    @property
    def key(self) -> str:
        """The value's place: a newer value of the same cache and branch replaces it."""
        return f"{self.cache}/{self.branch}"

    @property
    def text(self) -> str:
        """All fields in one line, as the ledger keeps it."""
        return repr(self)
