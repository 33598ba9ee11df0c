"""Scopes of several sessions over one storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from drill import Draw, expect, pick

from kvcache.conditioning import ConditioningLease, ConditioningScope, Ticket
from kvcache.errors import (
    IncompleteBuild,
    OutOfPages,
    OwnerClosed,
    StillLeased,
    Superseded,
)
from kvcache.identity import Identity, Representation
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import LayerKV, PagedStorage, PlainStorage, Stored, open_paged_storage


class FaultyPlainStorage(PlainStorage):
    """Plain storage whose next call may fail."""

    put_fails = False
    free_fails = False

    def put(self, layers: Sequence[LayerKV], representation: Representation) -> Stored:
        if self.put_fails:
            raise MemoryError("full")
        return super().put(layers, representation)

    def free(self, stored: Stored) -> None:
        if self.free_fails:
            raise RuntimeError("device is gone")
        super().free(stored)


@dataclass
class ModelScope:
    scope: ConditioningScope
    readable: dict[str, tuple[Identity, int]] = field(default_factory=dict)
    newest: dict[str, Ticket | None] = field(default_factory=dict)
    tickets: list[Ticket] = field(default_factory=list)
    leases: list[tuple[ConditioningLease, int]] = field(default_factory=list)


class ScopeDrill:
    """Scopes of several sessions over one storage; every value carries a number that no other carries."""

    SMALL = Representation(layers=1, batch=1, length=2, heads=1, head_dim=1, dtype="float32", device="cpu")

    def __init__(self, paged: bool = False) -> None:
        self.ledger, self.memory = Ledger(), Memory()
        self.storage: FaultyPlainStorage | PagedStorage = (
            open_paged_storage(self.SMALL, 1, 24, self.memory) if paged else FaultyPlainStorage(self.memory)
        )
        self.scopes: dict[str, ModelScope] = {}
        self.former: list[tuple[ConditioningScope, Ticket]] = []
        self.next = 0
        text = Identity("text", 0, "a", "transformer", "1", "", self.SMALL)
        self.identities = [
            replace(text, cache=cache, branch=branch, condition_revision=revision)
            for cache in ("text", "image")
            for branch in (0, 1)
            for revision in ("a", "b")
        ]
        self.operations = (
            self.open,
            self.lookup,
            self.begin,
            self.begin,
            self.publish,
            self.publish,
            self.publish,
            self.publish_badly,
            self.abandon,
            self.invalidate,
            self.retain,
            self.lease,
            self.give_back,
            self.give_back,
            self.close,
            self.publish_into_a_former_life,
        )

    def any_scope(self, draw: Draw) -> ModelScope | None:
        return pick(draw, list(self.scopes.values())) if self.scopes else None

    def open(self, draw: Draw) -> None:
        name = pick(draw, ("a", "b", "c"))
        if name not in self.scopes:
            self.ledger.open(name)
            self.scopes[name] = ModelScope(ConditioningScope(name, self.ledger, self.storage))

    def tagged(self) -> tuple[list[LayerKV], int]:
        self.next += 1
        return [
            (torch.full(self.SMALL.shape, float(self.next)), torch.full(self.SMALL.shape, -float(self.next)))
        ], self.next

    @staticmethod
    def tag(layers: tuple[LayerKV, ...]) -> int:
        keys, values = layers[0]
        assert torch.equal(keys, -values)
        return int(keys[0, 0, 0, 0])

    def lookup(self, draw: Draw) -> None:
        if model := self.any_scope(draw):
            identity = pick(draw, self.identities)
            found = model.scope.lookup(identity)
            wanted = model.readable.get(identity.key)
            if wanted is None or wanted[0] != identity:
                assert found is None
            else:
                assert found is not None
                assert self.tag(found) == wanted[1]

    def begin(self, draw: Draw) -> None:
        if model := self.any_scope(draw):
            identity = pick(draw, self.identities)
            ticket = model.scope.begin_build(identity)
            model.newest[identity.key] = ticket
            model.tickets = [*model.tickets[-5:], ticket]
            if model.readable.get(identity.key, (identity, 0))[0] != identity:
                del model.readable[identity.key]

    def publish(self, draw: Draw) -> None:
        if (model := self.any_scope(draw)) and model.tickets:
            ticket = pick(draw, model.tickets)
            layers, tag = self.tagged()
            current = model.newest.get(ticket.identity.key) is ticket
            try:
                model.scope.publish(ticket, layers)
            except Superseded:
                assert not current
                return
            except OutOfPages:
                assert current
                model.newest[ticket.identity.key] = None
                return
            assert current
            model.newest[ticket.identity.key] = None
            model.readable[ticket.identity.key] = (ticket.identity, tag)

    def publish_badly(self, draw: Draw) -> None:
        """A layer short, or a storage that is full."""
        if not ((model := self.any_scope(draw)) and model.tickets):
            return
        ticket = pick(draw, model.tickets)
        current = model.newest.get(ticket.identity.key) is ticket
        layers, _ = self.tagged()
        full = isinstance(self.storage, FaultyPlainStorage) and draw.below(2) == 0
        if isinstance(self.storage, FaultyPlainStorage):
            self.storage.put_fails = full
        try:
            model.scope.publish(ticket, layers if full else layers[:0])
        except (IncompleteBuild, MemoryError):
            assert current
            model.newest[ticket.identity.key] = None
        except Superseded:
            assert not current
        else:
            raise AssertionError("a bad publication went through")
        finally:
            if isinstance(self.storage, FaultyPlainStorage):
                self.storage.put_fails = False

    def abandon(self, draw: Draw) -> None:
        if (model := self.any_scope(draw)) and model.tickets:
            ticket = pick(draw, model.tickets)
            model.scope.abandon(ticket, "cancelled")
            if model.newest.get(ticket.identity.key) is ticket:
                model.newest[ticket.identity.key] = None

    def invalidate(self, draw: Draw) -> None:
        if model := self.any_scope(draw):
            cache, branch = pick(draw, (None, "text", "image")), pick(draw, (None, 0, 1))
            model.scope.invalidate(cache, branch)
            self.forget(model, lambda name, n: cache in (None, name) and branch in (None, n))

    def retain(self, draw: Draw) -> None:
        if model := self.any_scope(draw):
            names = pick(draw, ((), ("text",), ("image",), ("text", "image")))
            model.scope.retain(names)
            self.forget(model, lambda name, n: name not in names)

    @staticmethod
    def forget(model: ModelScope, goes: Callable[[str, int], bool]) -> None:
        for key in {*model.readable, *model.newest}:
            name, number = key.split("/")
            if goes(name, int(number)):
                model.readable.pop(key, None)
                model.newest[key] = None

    def lease(self, draw: Draw) -> None:
        if (model := self.any_scope(draw)) and model.readable and len(model.leases) < 3:
            identity, tag = pick(draw, list(model.readable.values()))
            lease = model.scope.lease(identity, "drill")
            assert lease is not None
            model.leases.append((lease, tag))

    def give_back(self, draw: Draw) -> None:
        if (model := self.any_scope(draw)) and model.leases:
            lease, tag = model.leases.pop(draw.below(len(model.leases)))
            assert self.tag(lease.layers) == tag
            lease.give_back()
            lease.give_back()

    def close(self, draw: Draw) -> None:
        """Sometimes the storage refuses; then, and while leases are out, the retry must do."""
        if not self.scopes or draw.below(4):
            return
        name = pick(draw, list(self.scopes))
        model = self.scopes[name]
        self.ledger.begin_close(name)
        if isinstance(self.storage, FaultyPlainStorage) and draw.below(2):
            self.storage.free_fails = True
            try:
                model.scope.close()
            except (RuntimeError, StillLeased):
                self.ledger.cleanup_failed(name, "drill")
                assert not self.ledger.can_open(name)
            self.storage.free_fails = False
        self.end(name)

    def end(self, name: str) -> None:
        model = self.scopes.pop(name)
        self.ledger.begin_close(name)
        if model.leases:
            try:
                model.scope.close()
            except StillLeased:
                pass
            else:
                raise AssertionError("closed under a lease")
        for lease, tag in model.leases:
            assert self.tag(lease.layers) == tag
            lease.give_back()
        model.scope.close()
        self.ledger.close(name)
        self.former = [*self.former[-3:], *((model.scope, ticket) for ticket in model.tickets[-1:])]

    def publish_into_a_former_life(self, draw: Draw) -> None:
        if self.former:
            scope, ticket = pick(draw, self.former)
            expect(False, Superseded, lambda: scope.publish(ticket, self.tagged()[0]))
            expect(False, OwnerClosed, lambda: scope.begin_build(ticket.identity))
            assert scope.lookup(ticket.identity) is None
            scope.invalidate()
            scope.close()

    def check(self) -> None:
        assert self.ledger.is_consistent()
        assert self.ledger.live_bytes == self.storage.live_bytes
        for model in self.scopes.values():
            for lease, tag in model.leases:
                assert self.tag(lease.layers) == tag
            for identity, tag in model.readable.values():
                found = model.scope.lookup(identity)
                assert found is not None
                assert self.tag(found) == tag

    def finish(self) -> None:
        for name in list(self.scopes):
            self.end(name)
        assert self.ledger.live_bytes == self.storage.live_bytes == 0
        assert self.ledger.live.owners == {}
