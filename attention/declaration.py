"""What an attention layer declares about itself, once, when it is built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from attention.errors import RequestRefused


class Computation(StrEnum):
    """Whether queries and keys come from the same tokens. Never inferred from lengths or role names."""

    SELF = "self"
    CROSS = "cross"


class Placement(StrEnum):
    """How queries and K/V lie over the ranks of a process group."""

    NONE = "none"
    LOCAL_Q_REPLICATED_KV = "local_q_replicated_kv"
    REPLICATED_Q_SHARDED_KV = "replicated_q_sharded_kv"


class CachePolicy(StrEnum):
    """How the caller keeps this layer's K/V. Carried for the caller; nothing here reads it."""

    NONE = "none"  # made anew for each call, as where it depends on the denoising state
    CONDITION = "condition"  # kept while its condition holds, as a prompt's
    HISTORY = "history"  # grows with what is committed


@dataclass(frozen=True, slots=True)
class Declaration:
    """One layer's attention: heads and head dim of the projected Q and K/V, and what is computed on them.

    `role` names the layer for backend choice alone, e.g. `world.self`; its category is the text before
    the first dot. `causal` hides key `j` from query `i` where `j > i + kv_length - query_length`. `scale`
    multiplies the logits (default `head_dim ** -0.5`). Raises `RequestRefused`.
    """

    computation: Computation
    role: str
    heads: int
    kv_heads: int
    head_dim: int
    placement: Placement = Placement.NONE
    cache: CachePolicy = CachePolicy.NONE
    causal: bool = False
    scale: float | None = None

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("computation", self.computation, Computation),
            ("placement", self.placement, Placement),
            ("cache", self.cache, CachePolicy),
        ):
            if not isinstance(value, kind):
                raise RequestRefused(name, "one of " + ", ".join(kind), repr(value))
        if not isinstance(self.role, str) or not self.role:
            raise RequestRefused("role", "a non-empty string", repr(self.role))
        for name, count in (("heads", self.heads), ("kv_heads", self.kv_heads), ("head_dim", self.head_dim)):
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise RequestRefused(name, "an integer of at least 1", repr(count))
        if self.heads % self.kv_heads:
            raise RequestRefused("heads", f"a multiple of the {self.kv_heads} K/V heads", self.heads)
        if self.causal and self.computation is Computation.CROSS:
            raise RequestRefused("causal", "False for cross attention", True)
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise RequestRefused("scale", "a positive finite number", self.scale)

    @property
    def category(self) -> str:
        """The part of the role that groups layers for backend choice."""
        return self.role.partition(".")[0]

    @property
    def logit_scale(self) -> float:
        """What the logits are multiplied by."""
        return self.head_dim**-0.5 if self.scale is None else self.scale
