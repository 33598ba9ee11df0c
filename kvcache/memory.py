"""The tensors that caches hold, counted in bytes where they are allocated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor


@dataclass(slots=True, eq=False)
class Allocation:
    """Tensors that are freed together; empty once they are. `bytes` stays what it was."""

    tensors: tuple[Tensor, ...]
    bytes: int


class Memory:
    """Allocates on one device and knows how many bytes are out. Faults are injected by subclass."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self._lock = Lock()
        self._live: set[Allocation] = set()
        self._bytes = 0

    @property
    def live_bytes(self) -> int:
        """Bytes that are allocated or adopted and not freed."""
        return self._bytes

    @property
    def allocations(self) -> int:
        """How many allocations are out."""
        return len(self._live)

    def allocate(self, shapes: Iterable[Sequence[int]], dtype: torch.dtype) -> Allocation:
        """Uninitialised tensors of `shapes`. Raises what torch raises where the device is full."""
        return self.adopt([torch.empty(tuple(shape), dtype=dtype, device=self.device) for shape in shapes])

    def adopt(self, tensors: Iterable[Tensor]) -> Allocation:
        """Count tensors that someone else made as held here; their own bytes, not those of shared storage."""
        kept = tuple(tensors)
        allocation = Allocation(kept, sum(tensor.nbytes for tensor in kept))
        with self._lock:
            self._live.add(allocation)
            self._bytes += allocation.bytes
        return allocation

    def free(self, allocation: Allocation) -> None:
        """Let go of the tensors; may be repeated."""
        with self._lock:
            if allocation in self._live:
                self._live.remove(allocation)
                self._bytes -= allocation.bytes
        allocation.tensors = ()
