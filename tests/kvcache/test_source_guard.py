"""A value of a source that changed or is gone is not found again."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from scope_bench import TEXT, Bench, layers_of, same

from kvcache.errors import Superseded
from kvcache.guard import SourceGuard, digest

torch.set_num_threads(1)


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
