"""The caches of a device, and a world's part in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kvcache.conditioning import ConditioningScope
from kvcache.geometry import Geometry
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import PlainStorage, Storage
from kvcache.view import BlockView, KVView, open_view


@dataclass(frozen=True, slots=True, eq=False)
class Caches:
    """What all worlds of one device share: the ledger and the allocators that it governs."""

    ledger: Ledger
    memory: Memory
    storage: Storage


def make_caches(memory: Memory | None = None) -> Caches:
    """Fresh caches on one device."""
    memory = memory or Memory()
    return Caches(Ledger(), memory, PlainStorage(memory))


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

    def __init__(self, owner: str, caches: Caches, view: KVView, text: ConditioningScope) -> None:
        self.owner = owner
        self.view = view
        self.text = text
        self._ledger = caches.ledger
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
        """Release everything; idempotent. What raises leaves a tombstone, and the next call tries again."""
        if self._closed:  # by then the id may be another's
            return
        self._slots.clear()
        self._ledger.begin_close(self.owner)
        try:
            self.view.release()
            self.text.close()
            self._ledger.close(self.owner)
        except Exception as error:
            self._ledger.cleanup_failed(self.owner, f"{type(error).__name__}: {error}")
            raise
        self._closed = True


def open_caches(owner: str, geometry: Geometry, caches: Caches) -> WorldCaches:
    """Open an owner in the ledger and allocate its view; leaves nothing behind where it raises."""
    caches.ledger.open(owner)
    try:
        view = open_view(geometry, owner, caches.ledger, caches.memory)
    except BaseException:
        caches.ledger.begin_close(owner)
        caches.ledger.close(owner)
        raise
    return WorldCaches(owner, caches, view, ConditioningScope(owner, caches.ledger, caches.storage))
