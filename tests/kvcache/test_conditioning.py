"""The conditioning scope: what is readable, what is superseded, what is freed; in both storages."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from scope_bench import DESERT, REPRESENTATION, TEXT, Bench, layers_of, same

from kvcache.errors import IncompleteBuild, OwnerClosed, StillLeased, Superseded
from kvcache.identity import Identity, Representation

torch.set_num_threads(1)


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
