"""Storages of conditioning: what a scope does where they fail, and how pages hold a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from scope_bench import DESERT, REPRESENTATION, TEXT, layers_of, same

from kvcache.conditioning import ConditioningScope
from kvcache.errors import GeometryRefused, OutOfPages, Superseded
from kvcache.identity import Representation
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import LayerKV, PlainStorage, Stored, open_paged_storage

torch.set_num_threads(1)


class StuckStorage(PlainStorage):
    stuck = True

    def free(self, stored: Stored) -> None:
        if self.stuck:
            raise RuntimeError("device is gone")
        super().free(stored)


def test_a_release_that_fails_stays_in_the_ledger_until_it_succeeds() -> None:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    storage = StuckStorage(memory)
    scope = ConditioningScope("world", ledger, storage)
    scope.publish(scope.begin_build(TEXT), layers_of(1))
    scope.publish(scope.begin_build(DESERT), layers_of(2))  # a prompt change is not harmed by it
    assert scope.lookup(DESERT) is not None
    with pytest.raises(RuntimeError, match="device is gone"):
        scope.close()
    assert ledger.live_bytes == memory.live_bytes > 0
    storage.stuck = False
    scope.close()
    assert ledger.live_bytes == memory.live_bytes == 0


class FullStorage(PlainStorage):
    def put(self, layers: object, representation: Representation) -> Stored:
        raise MemoryError("full")


def test_a_full_storage_ends_the_build_and_keeps_the_value_before() -> None:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    scope = ConditioningScope("world", ledger, PlainStorage(memory))
    layers = layers_of(1)
    scope.publish(scope.begin_build(TEXT), layers)
    scope._storage = FullStorage(memory)
    with pytest.raises(MemoryError):
        scope.publish(scope.begin_build(TEXT), layers_of(2))
    assert same(scope.lookup(TEXT), layers)
    assert ledger.is_consistent()


class InterruptedStorage(PlainStorage):
    """Someone invalidates while a value is being stored."""

    scope: ConditioningScope

    def put(self, layers: Sequence[LayerKV], representation: Representation) -> Stored:
        stored = super().put(layers, representation)
        self.scope.invalidate()
        return stored


def test_an_invalidation_while_a_value_is_stored_frees_it_again() -> None:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    storage = InterruptedStorage(memory)
    scope = storage.scope = ConditioningScope("world", ledger, storage)
    with pytest.raises(Superseded):
        scope.publish(scope.begin_build(TEXT), layers_of(1))
    assert scope.lookup(TEXT) is None
    assert ledger.live_bytes == memory.live_bytes == 0


@pytest.mark.parametrize("layout", ["BNSD", "BSND"])
@pytest.mark.parametrize("batch", [1, 2])
def test_pages_hold_every_layout_and_batch(layout: str, batch: int) -> None:
    memory = Memory()
    wanted = replace(REPRESENTATION, layout=layout, batch=batch)  # type: ignore[arg-type]
    storage = open_paged_storage(wanted, 2, 12, memory)
    first = storage.put(layers_of(1, wanted), wanted)
    second = storage.put(layers_of(2, wanted), wanted)
    assert len(first.pages) == batch * 3
    assert not set(first.pages) & set(second.pages)
    assert same(first.layers, layers_of(1, wanted))
    assert same(second.layers, layers_of(2, wanted))
    with pytest.raises(OutOfPages):
        for _ in range(3):
            storage.put(layers_of(3, wanted), wanted)
    with pytest.raises(GeometryRefused, match="heads: got 9"):
        storage.put([], replace(wanted, heads=9))


def test_an_arena_gives_its_memory_back() -> None:
    memory = Memory()
    storage = open_paged_storage(REPRESENTATION, 2, 12, memory)
    stored = storage.put(layers_of(1), REPRESENTATION)
    storage.free(stored)
    storage.free(stored)
    assert storage.live_bytes == 0
    storage.close()
    assert memory.live_bytes == 0
