"""How a sequence lies over the ranks of a process group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from attention.errors import RequestRefused


@dataclass(frozen=True, slots=True)
class Shards:
    """Tokens per rank, in the order of the ranks, and which rank this is. Shares may be unequal or empty.

    Raises `RequestRefused`.
    """

    lengths: tuple[int, ...]
    rank: int

    def __post_init__(self) -> None:
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in self.lengths)
        if not isinstance(self.lengths, tuple) or not self.lengths or not whole or not sum(self.lengths):
            raise RequestRefused("lengths", "a tuple of non-negative integers, one above 0", self.lengths)
        if not isinstance(self.rank, int) or not 0 <= self.rank < len(self.lengths):
            raise RequestRefused("rank", f"an integer from 0 to {len(self.lengths) - 1}", self.rank)

    @property
    def length(self) -> int:
        """Tokens on this rank."""
        return self.lengths[self.rank]

    @property
    def start(self) -> int:
        """Where this rank's tokens begin in the whole sequence."""
        return sum(self.lengths[: self.rank])

    @property
    def stop(self) -> int:
        """Where they end."""
        return self.start + self.length

    @property
    def total(self) -> int:
        """Tokens on all ranks."""
        return sum(self.lengths)


def even_shards(total: int, world: int, rank: int) -> Shards:
    """`total` tokens over `world` ranks, as evenly as they go; earlier ranks take the rest."""
    share, rest = divmod(total, world)
    return Shards(tuple(share + (i < rest) for i in range(world)), rank)


def agree_shards(length: int, group: ProcessGroup | None = None) -> Shards:
    """Ask all ranks for their share. A collective call, for once per geometry. Raises `RequestRefused`."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    lengths = torch.empty(world, 1, dtype=torch.int64, device=device)
    dist.all_gather(list(lengths.unbind()), torch.tensor([length], device=device), group=group)
    return Shards(tuple(lengths.flatten().tolist()), rank)
