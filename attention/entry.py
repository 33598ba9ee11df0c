"""The one entry: a declaration in, a callable over projected Q, K and V out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor
from torch.distributed import ProcessGroup

from attention.backends import BACKENDS
from attention.backends.base import Backend
from attention.checks import Layout
from attention.declaration import Declaration, Placement
from attention.errors import RequestRefused
from attention.layer import Attention
from attention.masks import Mask
from attention.placements.head_exchange import HeadExchange
from attention.placements.local_queries import LocalQueries
from attention.placements.membership import join
from attention.placements.partial_sums import PartialSums
from attention.selection import BackendPolicy, ResolvedPath


class Attend(Protocol):
    """An executable attention."""

    declaration: Declaration

    @property
    def path(self) -> ResolvedPath | None:
        """The latest choice of a backend; None before the first call."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, layout: Layout | None = None
    ) -> Tensor:
        """q [B, Sq, Hq, D], k and v [B, Skv, Hkv, D] -> [B, Sq, Hq, D]; a placement takes shares of them."""


def build_attention(
    declaration: Declaration,
    policy: BackendPolicy | None = None,
    group: ProcessGroup | None = None,
    backends: Mapping[str, Backend] = BACKENDS,
) -> Attend:
    """The executor of a declared attention.

    A placement needs an initialized process group; None is the default one. Raises `RequestRefused`, and
    `BackendRefused` where an explicit backend can't serve the declaration.
    """
    if declaration.placement is Placement.NONE:
        if group is not None:
            raise RequestRefused("group", f"none for placement {Placement.NONE}", "a process group")
        return Attention(declaration, policy, backends)
    if declaration.placement is Placement.LOCAL_Q_REPLICATED_KV:
        return LocalQueries(declaration, policy, group, backends)
    if declaration.kv_heads % join(group).world:
        return PartialSums(declaration, policy, group, backends)
    return HeadExchange(declaration, policy, group, backends)
