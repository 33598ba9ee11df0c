"""The conditioning scope: what is readable, what is superseded, what is freed; in both storages."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import pytest
import torch
from torch import Tensor

from kvcache.conditioning import ConditioningScope
from kvcache.errors import (
    GeometryRefused,
    IncompleteBuild,
    OutOfPages,
    OwnerClosed,
    StillLeased,
    Superseded,
)
from kvcache.guard import SourceGuard, digest
from kvcache.identity import Identity, Representation
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import LayerKV, PagedStorage, PlainStorage, Stored, open_paged_storage

torch.set_num_threads(1)

REPRESENTATION = Representation(
    layers=2, batch=1, length=5, heads=3, head_dim=4, dtype="float32", device="cpu", layout="BNSD"
)
TEXT = Identity("text", 0, "a meadow", "transformer", "weights 1", "", REPRESENTATION)
DESERT = replace(TEXT, condition_revision="a desert")


def layers_of(seed: int, representation: Representation = REPRESENTATION) -> list[LayerKV]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(representation.shape, generator=generator),
            torch.randn(representation.shape, generator=generator),
        )
        for _ in range(representation.layers)
    ]


@dataclass
class Bench:
    ledger: Ledger
    memory: Memory
    storage: PlainStorage | PagedStorage
    scope: ConditioningScope

    def another(self, owner: str) -> ConditioningScope:
        self.ledger.open(owner)
        return ConditioningScope(owner, self.ledger, self.storage)

    def fill(self, identity: Identity, seed: int, source: Tensor | None = None) -> list[LayerKV]:
        layers = layers_of(seed, identity.representation)
        self.scope.publish(self.scope.begin_build(identity, source), layers)
        return layers


@pytest.fixture(params=["plain", "paged"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    storage = (
        PlainStorage(memory)
        if request.param == "plain"
        else open_paged_storage(REPRESENTATION, 2, 30, memory)
    )
    bench = Bench(ledger, memory, storage, ConditioningScope("world", ledger, storage))
    yield bench
    assert ledger.is_consistent()
    assert ledger.live_bytes == storage.live_bytes
    bench.scope.close()
    assert ledger.live.owners["world"].live_bytes == 0


def same(found: tuple[LayerKV, ...] | None, layers: list[LayerKV]) -> bool:
    assert found is not None
    return all(
        torch.equal(a, b)
        for ours, theirs in zip(found, layers, strict=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def test_what_was_published_is_found(bench: Bench) -> None:
    layers = bench.fill(TEXT, 1)
    assert same(bench.scope.lookup(TEXT), layers)


CHANGES = {
    "cache": "image",
    "branch": 1,
    "condition_revision": "b",
    "projection": "other",
    "projection_revision": "weights 2",
    "adapter_revision": "lora",
    "layers": 3,
    "batch": 2,
    "length": 6,
    "heads": 1,
    "head_dim": 8,
    "dtype": "float16",
    "device": "meta",
    "layout": "BSND",
}


def test_every_field_of_an_identity_is_tried_below() -> None:
    names = {item.name for item in (*fields(Identity), *fields(Representation))} - {"representation"}
    assert names == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_an_identity_that_differs_in_any_field_is_a_miss(bench: Bench, name: str) -> None:
    bench.fill(TEXT, 1)
    change = {name: CHANGES[name]}
    if hasattr(TEXT, name):
        other = replace(TEXT, **change)  # type: ignore[arg-type]
    else:
        other = replace(TEXT, representation=replace(REPRESENTATION, **change))  # type: ignore[arg-type]
    assert bench.scope.lookup(other) is None
    assert bench.scope.lookup(TEXT) is not None


def test_a_prompt_change_replaces_the_value_and_frees_the_old_one(bench: Bench) -> None:
    bench.fill(TEXT, 1)
    weight = bench.storage.live_bytes
    layers = bench.fill(DESERT, 2)
    assert bench.scope.lookup(TEXT) is None
    assert same(bench.scope.lookup(DESERT), layers)
    assert bench.storage.live_bytes == weight


def test_an_unfinished_build_is_not_readable(bench: Bench) -> None:
    bench.scope.begin_build(TEXT)
    assert bench.scope.lookup(TEXT) is None


def test_a_failed_build_leaves_a_value_of_the_same_identity_untouched(bench: Bench) -> None:
    layers = bench.fill(TEXT, 1)
    with pytest.raises(RuntimeError, match="projection"), bench.scope.build(TEXT):
        raise RuntimeError("projection")
    assert same(bench.scope.lookup(TEXT), layers)


def test_a_failed_build_of_another_identity_leaves_nothing(bench: Bench) -> None:
    bench.fill(TEXT, 1)
    with pytest.raises(RuntimeError, match="projection"), bench.scope.build(DESERT):
        raise RuntimeError("projection")
    assert bench.scope.lookup(TEXT) is None
    assert bench.scope.lookup(DESERT) is None
    assert bench.storage.live_bytes == 0


def test_a_newer_build_supersedes_an_older_one(bench: Bench) -> None:
    older = bench.scope.begin_build(TEXT)
    newer = bench.scope.begin_build(TEXT)
    with pytest.raises(Superseded):
        bench.scope.publish(older, layers_of(1))
    layers = layers_of(2)
    bench.scope.publish(newer, layers)
    assert same(bench.scope.lookup(TEXT), layers)


def test_an_invalidation_supersedes_a_build(bench: Bench) -> None:
    ticket = bench.scope.begin_build(TEXT)
    bench.scope.invalidate()
    with pytest.raises(Superseded):
        bench.scope.publish(ticket, layers_of(1))
    assert bench.storage.live_bytes == 0


def test_a_ticket_publishes_once(bench: Bench) -> None:
    ticket = bench.scope.begin_build(TEXT)
    layers = layers_of(1)
    bench.scope.publish(ticket, layers)
    with pytest.raises(Superseded):
        bench.scope.publish(ticket, layers_of(2))
    assert same(bench.scope.lookup(TEXT), layers)


@pytest.mark.parametrize("fault", ["a layer short", "another length", "another dtype"])
def test_an_incomplete_publication_becomes_invisible_and_ends_its_build(bench: Bench, fault: str) -> None:
    layers = layers_of(1)
    if fault == "a layer short":
        layers = layers[:1]
    elif fault == "another length":
        layers[1] = (layers[1][0], layers[1][1][:, :, :4])
    else:
        layers[1] = (layers[1][0], layers[1][1].double())
    ticket = bench.scope.begin_build(TEXT)
    with pytest.raises(IncompleteBuild, match="got"):
        bench.scope.publish(ticket, layers)
    assert bench.scope.lookup(TEXT) is None
    assert bench.storage.live_bytes == 0
    assert bench.ledger.live.owners["world"].entries == {}


def test_the_scopes_of_two_sessions_see_nothing_of_one_another(bench: Bench) -> None:
    other = bench.another("other")
    layers = bench.fill(TEXT, 1)
    assert other.lookup(TEXT) is None
    other.publish(other.begin_build(TEXT), layers_of(2))
    assert same(bench.scope.lookup(TEXT), layers)
    other.close()
    assert same(bench.scope.lookup(TEXT), layers)


def test_an_id_used_again_sees_nothing_of_its_former_life(bench: Bench) -> None:
    former = bench.another("again")
    ticket = former.begin_build(TEXT)
    former.publish(former.begin_build(replace(TEXT, cache="image")), layers_of(3))
    former.close()
    bench.ledger.begin_close("again")
    bench.ledger.close("again")
    scope = bench.another("again")
    with pytest.raises(Superseded):
        former.publish(ticket, layers_of(1))
    assert scope.lookup(TEXT) is None
    assert scope.lookup(replace(TEXT, cache="image")) is None
    layers = layers_of(4)
    scope.publish(scope.begin_build(TEXT), layers)
    assert former.lookup(TEXT) is None
    assert former.lease(TEXT, "reader") is None
    with pytest.raises(OwnerClosed):
        former.begin_build(TEXT)
    former.invalidate()
    former.retain(())
    former.close()
    assert same(scope.lookup(TEXT), layers)


def test_two_branches_live_side_by_side(bench: Bench) -> None:
    second = replace(TEXT, branch=1)
    one, two = bench.fill(TEXT, 1), bench.fill(second, 2)
    assert same(bench.scope.lookup(TEXT), one)
    assert same(bench.scope.lookup(second), two)
    bench.scope.invalidate(branch=1)
    assert same(bench.scope.lookup(TEXT), one)
    assert bench.scope.lookup(second) is None


def test_a_window_reset_keeps_the_caches_it_names(bench: Bench) -> None:
    image, image_second = replace(TEXT, cache="image"), replace(TEXT, cache="image", branch=1)
    bench.fill(TEXT, 1)
    kept, kept_second = bench.fill(image, 2), bench.fill(image_second, 3)
    bench.scope.retain({"image"})
    assert bench.scope.lookup(TEXT) is None
    assert same(bench.scope.lookup(image), kept)
    assert same(bench.scope.lookup(image_second), kept_second)


def test_a_leased_value_outlives_its_replacement(bench: Bench) -> None:
    layers = bench.fill(TEXT, 1)
    lease = bench.scope.lease(TEXT, "chunk 3")
    assert lease is not None
    bench.fill(DESERT, 2)
    assert bench.scope.lookup(TEXT) is None
    assert same(lease.layers, layers)
    with pytest.raises(StillLeased):
        bench.scope.close()
    lease.give_back()
    lease.give_back()
    bench.scope.close()
    assert bench.storage.live_bytes == 0


def test_nothing_is_built_in_a_closed_owner(bench: Bench) -> None:
    other = bench.another("other")
    bench.ledger.begin_close("other")
    with pytest.raises(OwnerClosed):
        other.begin_build(TEXT)
    other.close()
    bench.ledger.close("other")


def test_a_changed_source_is_a_miss(bench: Bench) -> None:
    source = torch.ones(4)
    layers = bench.fill(TEXT, 1, source)
    assert same(bench.scope.lookup(TEXT, source), layers)
    assert same(bench.scope.lookup(TEXT), layers)
    source.add_(1)
    assert bench.scope.lookup(TEXT, source) is None
    assert bench.storage.live_bytes == 0


def test_a_dead_source_is_a_miss_though_its_memory_is_used_again(bench: Bench) -> None:
    source = torch.ones(4096)
    address = source.data_ptr()
    bench.fill(TEXT, 1, source)
    del source
    gc.collect()
    others = [torch.ones(4096) for _ in range(64)]
    again = next((other for other in others if other.data_ptr() == address), others[0])
    assert bench.scope.lookup(TEXT, again) is None
    assert bench.scope.lookup(TEXT) is None


def test_another_tensor_with_equal_contents_is_a_miss_that_harms_nothing(bench: Bench) -> None:
    source = torch.ones(4)
    layers = bench.fill(TEXT, 1, source)
    assert bench.scope.lookup(TEXT, source.clone()) is None
    assert same(bench.scope.lookup(TEXT, source), layers)


def test_a_source_without_a_version_is_compared_by_content(bench: Bench) -> None:
    with torch.inference_mode():
        source = torch.ones(4)
        layers = bench.fill(TEXT, 1, source)
        assert same(bench.scope.lookup(TEXT, source), layers)
        source.add_(1)
        assert bench.scope.lookup(TEXT, source) is None


def test_a_source_that_changes_during_the_build_spoils_it(bench: Bench) -> None:
    source = torch.ones(4)
    ticket = bench.scope.begin_build(TEXT, source)
    source.mul_(2)
    with pytest.raises(Superseded, match="source"):
        bench.scope.publish(ticket, layers_of(1))
    assert bench.scope.lookup(TEXT) is None


def test_a_guard_keeps_no_source_alive() -> None:
    source = torch.ones(4)
    guard, alive = SourceGuard(source), weakref.ref(source)
    del source
    gc.collect()
    assert alive() is None
    assert not guard.holds()


def test_a_digest_tells_dtype_shape_and_contents_apart() -> None:
    ones = torch.ones(4)
    assert digest(ones) == digest(ones.clone())
    others = [torch.zeros(4), torch.ones(2, 2), torch.ones(4, dtype=torch.int32), torch.ones(5)]
    assert digest(ones) not in [digest(other) for other in others]


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
