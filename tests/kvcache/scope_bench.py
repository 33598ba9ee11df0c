"""A conditioning scope on its own, and values for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kvcache.conditioning import ConditioningScope
from kvcache.identity import Identity, Representation
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import LayerKV, PagedStorage, PlainStorage

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


def same(found: tuple[LayerKV, ...] | None, layers: list[LayerKV]) -> bool:
    assert found is not None
    return all(
        torch.equal(a, b)
        for ours, theirs in zip(found, layers, strict=True)
        for a, b in zip(ours, theirs, strict=True)
    )
