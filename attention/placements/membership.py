"""This process's place in a group."""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from attention.errors import RequestRefused
from attention.shards import Shards


@dataclass(frozen=True, slots=True)
class Membership:
    """A group (None is the default one), its size and our rank in it."""

    group: ProcessGroup | None
    world: int
    rank: int

    def check(self, shards: object, name: str, tensor: Tensor) -> Shards:
        """`shards` as those of this group, of which `tensor` is our share. Raises `RequestRefused`."""
        if not isinstance(shards, Shards):
            raise RequestRefused("layout", f"the shards of {name}", type(shards).__name__)
        if len(shards.lengths) != self.world:
            raise RequestRefused("layout", f"{self.world} shards, one per rank", len(shards.lengths))
        if shards.rank != self.rank:
            raise RequestRefused("layout", f"the shards as rank {self.rank} sees them", f"rank {shards.rank}")
        if tensor.shape[1] != shards.length:
            raise RequestRefused(name, f"length {shards.length}, this rank's share", tensor.shape[1])
        return shards

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensor of every rank, [W, *shape]; all have one shape. A collective call."""
        ours = tensor.contiguous()
        parts = ours.new_empty(self.world, *ours.shape)
        dist.all_gather(list(parts.unbind()), ours, group=self.group)
        return parts


def join(group: ProcessGroup | None) -> Membership:
    """Our place in `group`. Raises `RequestRefused` where there is none."""
    if not dist.is_available() or not dist.is_initialized():
        raise RequestRefused("group", "an initialized process group, for a placement", "none")
    rank = dist.get_rank(group)
    if rank < 0:
        raise RequestRefused("group", "a process group that this process is in", "another")
    return Membership(group, dist.get_world_size(group), rank)
