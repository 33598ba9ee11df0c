"""What tests of worlds share: a model, caches whose books are balanced, and worlds that are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from failing_model import FailingCodec, FailingTransformer
from small_world import small_model, spec_of

from engine.codec.streaming import StreamingTinyCodec
from engine.transformer.serving import ServingTransformer
from engine.world.caches import Caches, make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture
def caches() -> Iterator[Caches]:
    caches = make_caches()
    yield caches
    assert caches.ledger.is_consistent()
    assert caches.ledger.live_bytes == caches.memory.live_bytes


@pytest.fixture
def fresh(model: Model, caches: Caches) -> Iterator[Callable[..., World]]:
    opened: list[World] = []

    def open_one(spec: WorldSpec | None = None, model: Model = model) -> World:
        world = open_world(model, spec or spec_of(f"w{len(opened)}"), caches)
        opened.append(world)
        return world

    yield open_one
    for world in opened:
        world.close()
    assert caches.memory.live_bytes == 0


@pytest.fixture(scope="module")
def failing() -> tuple[Model, FailingTransformer, FailingCodec]:
    model = small_model()
    assert isinstance(model.transformer, ServingTransformer)
    assert isinstance(model.codec, StreamingTinyCodec)
    transformer, codec = FailingTransformer(model.transformer.module), FailingCodec(model.codec.network)
    return replace(model, transformer=transformer, codec=codec), transformer, codec
