"""`replicated_q_sharded_kv` where the K/V heads divide by the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from attention.backends.base import Backend
from attention.checks import Layout
from attention.declaration import Declaration, Placement
from attention.layer import Attention
from attention.masks import Mask
from attention.placements.membership import join
from attention.placements.sharded import check_sharded
from attention.selection import BackendPolicy, ResolvedPath
from attention.shards import Shards


class HeadExchange:
    """Each rank attends with its heads to all keys: one all-to-all of K/V, one gathering of outputs."""

    def __init__(
        self,
        declaration: Declaration,
        policy: BackendPolicy | None,
        group: ProcessGroup | None,
        backends: Mapping[str, Backend],
    ) -> None:
        self.declaration = declaration
        self._membership = join(group)
        world = self._membership.world
        assert declaration.kv_heads % world == 0
        heads, kv_heads = declaration.heads // world, declaration.kv_heads // world
        inner = replace(declaration, placement=Placement.NONE, heads=heads, kv_heads=kv_heads)
        self._attend = Attention(inner, policy, backends)
        self._heads = (heads * self._membership.rank, heads * (self._membership.rank + 1))

    @property
    def path(self) -> ResolvedPath | None:
        """The latest choice of a backend."""
        return self._attend.path

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, layout: Layout | None = None
    ) -> Tensor:
        """Attend to the keys of all ranks.

        q [B, Sq, Hq, D], our share of k and v [B, share, Hkv, D] -> [B, Sq, Hq, D], the same on every
        rank. `layout` holds the shards of the keys, `mask` is that of the whole. A collective call. Raises
        `RequestRefused`.
        """
        shards = check_sharded(self.declaration, self._membership, q, k, v, mask, layout)
        first, last = self._heads
        keys, values = self._exchange(k, v, shards)
        part = None if mask is None else mask.of_heads(first, last)
        parts = self._membership.gather(self._attend(q[:, :, first:last], keys, values, part))
        return parts.permute(1, 2, 0, 3, 4).flatten(2, 3).contiguous()

    def _exchange(self, k: Tensor, v: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
        """[B, share, Hkv, D] -> [B, total, Hkv / W, D]: all tokens of our heads."""
        world, rank = self._membership.world, self._membership.rank
        b, s, h, d = k.shape
        ours = torch.stack((k, v)).view(2, b, s, world, h // world, d)
        send = ours.permute(3, 2, 0, 1, 4, 5).reshape(world * s, 2, b, h // world, d).contiguous()
        received = send.new_empty(shards.total, *send.shape[1:])
        dist.all_to_all_single(
            received, send, list(shards.lengths), [shards.lengths[rank]] * world, group=self._membership.group
        )
        return received[:, 0].transpose(0, 1), received[:, 1].transpose(0, 1)
