"""Memory that an owner holds from an opening to a release, both in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from kvcache.ledger import Ledger
from kvcache.memory import Allocation, Memory


class Holding:
    """One allocation of one owner under one key. Made by `hold`."""

    def __init__(
        self, owner: str, key: str, generation: int, allocation: Allocation, ledger: Ledger, memory: Memory
    ) -> None:
        self.owner = owner
        self.key = key
        self._generation = generation
        self._allocation = allocation
        self._ledger = ledger
        self._memory = memory

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is held; empty once it is released."""
        return self._allocation.tensors

    def release(self) -> None:
        """Give the memory back and record it; may be repeated. Raises what the allocator raises."""
        self._ledger.invalidate(self.owner, self.key, self._generation, "released")
        self._memory.free(self._allocation)
        self._ledger.released(self.owner, self.key, self._generation)


def hold(
    owner: str,
    key: str,
    identity: str,
    shapes: Iterable[Sequence[int]],
    dtype: torch.dtype,
    ledger: Ledger,
    memory: Memory,
) -> Holding:
    """Allocate uninitialised tensors for an owner that is open in the ledger.

    Raises `OwnerClosed`, `OwnerTombstoned`, and what torch raises where the device is full; then nothing is
    left behind.
    """
    generation = ledger.begin(owner, key, identity)
    try:
        allocation = memory.allocate(shapes, dtype)
    except BaseException:
        ledger.invalidate(owner, key, generation, "allocation failed")
        raise
    ledger.publish(owner, key, generation, allocation.bytes)
    return Holding(owner, key, generation, allocation, ledger, memory)
