"""The caches of a device, and a world's part in them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kvcache.capacity import CapacityPlan
from kvcache.geometry import Geometry
from kvcache.manager import CacheManager, SessionCaches
from kvcache.memory import Memory
from kvcache.view import BlockView

Caches = CacheManager
"""What all worlds of one device share: the ledger, the allocators that it governs, and who holds what."""


def make_caches(memory: Memory | None = None, plan: CapacityPlan | None = None) -> Caches:
    """Fresh caches on one device, for as many worlds as the plan says; without one, as there is memory."""
    return CacheManager(memory or Memory(), plan)


class LayerSlots:
    """One layer's place for the block in flight: implements the transformer's `LayerCache`."""

    __slots__ = ("_layer", "_seen", "_view")

    def __init__(self, view: BlockView, layer: int) -> None:
        self._view = view
        self._layer = layer
        self._seen: tuple[Tensor, Tensor] | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """[1, S, N, hd] into the view; what the block sees, [1, S', N, hd], always the same tensors."""
        seen = self._view.write(self._layer, keys.transpose(1, 2), values.transpose(1, 2))
        if self._seen is None:
            self._seen = (seen[0].transpose(1, 2), seen[1].transpose(1, 2))
        return self._seen


class WorldCaches:
    """One world's K/V: its self-attention view and its text. Made by `open_caches`."""

    def __init__(self, caches: Caches, own: SessionCaches) -> None:
        self.view = own.view
        self.text = own.conditioning
        self._owner = own.owner
        self._caches = caches
        self._closed = False
        self._slots: dict[BlockView, tuple[LayerSlots, ...]] = {}

    def begin(self) -> Sequence[LayerSlots]:
        """Places for the next block, one per layer; one block is in flight at a time."""
        block = self.view.begin()
        slots = self._slots.get(block)
        if slots is None:
            layers = range(self.view.geometry.layers)
            slots = self._slots[block] = tuple(LayerSlots(block, layer) for layer in layers)
        return slots

    def close(self) -> None:
        """Release everything; idempotent. `CleanupFailed` leaves a tombstone; the next call tries again."""
        if self._closed:  # by then the id may be another's
            return
        self._slots.clear()
        self._caches.close(self._owner)
        self._closed = True


def open_caches(owner: str, geometry: Geometry, caches: Caches) -> WorldCaches:
    """Open an owner and allocate its view; leaves nothing behind where it raises."""
    return WorldCaches(caches, caches.open(owner, geometry))
