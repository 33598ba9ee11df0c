"""Each rank holds its share of the queries and all K/V: nothing is communicated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor
from torch.distributed import ProcessGroup

from attention.backends.base import Backend
from attention.checks import Layout, check_mask, check_tensors
from attention.declaration import Declaration, Placement
from attention.errors import RequestRefused
from attention.layer import Attention
from attention.masks import Mask
from attention.placements.causal import CausalMasks
from attention.placements.membership import join
from attention.selection import BackendPolicy, ResolvedPath


class LocalQueries:
    """Executes an attention declared `local_q_replicated_kv`. Raises as `build_attention` does."""

    def __init__(
        self,
        declaration: Declaration,
        policy: BackendPolicy | None,
        group: ProcessGroup | None,
        backends: Mapping[str, Backend],
    ) -> None:
        assert declaration.placement is Placement.LOCAL_Q_REPLICATED_KV
        self.declaration = declaration
        self._membership = join(group)
        inner = replace(declaration, placement=Placement.NONE, causal=False)  # a slice's causality is a mask
        self._attend = Attention(inner, policy, backends)
        self._causal = CausalMasks()

    @property
    def path(self) -> ResolvedPath | None:
        """The latest choice of a backend."""
        return self._attend.path

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, layout: Layout | None = None
    ) -> Tensor:
        """Attend with our share of the queries.

        q [B, share, Hq, D], all of k and v [B, Skv, Hkv, D] -> [B, share, Hq, D]. `layout` holds the
        shards of the queries, `mask` is that of the whole sequence. Raises `RequestRefused`.
        """
        check_tensors(self.declaration, q, k, v, least=0)
        if k.shape[1] < 1:
            raise RequestRefused("k", "at least 1 token", f"shape {tuple(k.shape)}")
        shards = self._membership.check(layout, "q", q)
        if mask is not None:
            check_mask(self.declaration, mask, q.shape[0], shards.total, k.shape[1], q)
        elif self.declaration.causal:
            mask = self._causal.mask(q, shards.total, k.shape[1])
        if not shards.length:
            return q.new_empty(q.shape)
        return self._attend(q, k, v, None if mask is None else mask.rows(shards.start, shards.stop))
