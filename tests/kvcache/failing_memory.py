"""Memory that fails while it is told to."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from kvcache.memory import Allocation, Memory


class FailingMemory(Memory):
    """While it is `full` it takes nothing, and while it is `stuck` it gives nothing back."""

    def __init__(self, *, full: bool = False, stuck: bool = False) -> None:
        super().__init__()
        self.full = full
        self.stuck = stuck

    def adopt(self, tensors: Iterable[Tensor]) -> Allocation:
        if self.full:
            raise MemoryError("full")
        return super().adopt(tensors)

    def free(self, allocation: Allocation) -> None:
        if self.stuck:
            raise RuntimeError("device is gone")
        super().free(allocation)
