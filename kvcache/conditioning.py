"""Keys and values of conditions (text, image) that one session projected, and who may still read them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from kvcache.errors import IncompleteBuild, OwnerClosed, StillLeased, Superseded
from kvcache.fence import ReadyFence
from kvcache.guard import SourceGuard
from kvcache.identity import Identity
from kvcache.ledger import Ledger
from kvcache.storage import LayerKV, Storage, Stored
from kvcache.view import DTYPES

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """The right to publish one build, as long as no newer build, invalidation or close overtakes it."""

    identity: Identity
    generation: int
    guard: SourceGuard | None


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A published value with what guards it."""

    stored: Stored
    guard: SourceGuard | None
    fence: ReadyFence


@dataclass(frozen=True, slots=True, eq=False)
class ConditioningLease:
    """A value that stays where it is until it is given back, whatever happens to its cache meanwhile."""

    layers: tuple[LayerKV, ...]
    give_back: Callable[[], None]


class ConditioningScope:
    """The conditioning of one session instance; nothing in it is ever visible to another.

    `owner` must be open in the ledger. The ledger decides what is readable; the scope holds the tensors.
    """

    def __init__(self, owner: str, ledger: Ledger, storage: Storage) -> None:
        self.owner = owner
        self._ledger = ledger
        self._storage = storage
        self._life = ledger.life(owner)
        self._values: dict[int, Value] = {}

    # -- readers -------------------------------------------------------------------------------------------

    def lookup(self, identity: Identity, source: Tensor | None = None) -> tuple[LayerKV, ...] | None:
        """The layers of exactly this identity, or `None`.

        Where the value was built from a source tensor, that one must be alive and unchanged, and be `source`
        where one is given. What is returned may be read until the next call that changes the scope; hold it
        longer with `lease`.
        """
        found = self._find(identity, source)
        return None if found is None else found[1].stored.layers

    def lease(
        self, identity: Identity, holder: str, source: Tensor | None = None
    ) -> ConditioningLease | None:
        """As `lookup`, for a reader that reads on while others may invalidate or rebuild. `give_back` may
        be repeated.
        """
        found = self._find(identity, source)
        if found is None:
            return None
        generation, value = found
        lease = self._ledger.lease(self.owner, identity.key, generation, holder)

        def give_back() -> None:
            if self._ledger.give_back(self.owner, identity.key, generation, lease):
                self._sweep_quietly()

        return ConditioningLease(value.stored.layers, give_back)

    # -- builds --------------------------------------------------------------------------------------------

    def begin_build(self, identity: Identity, source: Tensor | None = None) -> Ticket:
        """Begin a build: older ones of the same cache and branch can't publish any more, and a value of
        another identity is gone. Raises `OwnerClosed`.
        """
        if not self._is_alive():
            raise OwnerClosed(f"no open owner {self.owner!r}")
        guard = None if source is None else SourceGuard(source)
        generation = self._ledger.begin(self.owner, identity.key, identity.text)
        self._sweep_quietly()
        return Ticket(identity, generation, guard)

    def publish(self, ticket: Ticket, layers: Sequence[LayerKV]) -> tuple[LayerKV, ...]:
        """Make a whole build readable, and return it as readers see it.

        Raises `IncompleteBuild` for missing layers or wrong shapes, `Superseded` where the build was
        overtaken or its source changed, and what the storage raises; in each case nothing of it becomes
        visible.
        """
        key, generation = ticket.identity.key, ticket.generation
        if not self._ledger.can_publish(self.owner, key, generation):
            raise Superseded(f"{key!r}: build {generation} was overtaken")
        try:
            _check(ticket.identity, layers)
            if ticket.guard is not None and not ticket.guard.holds():
                raise Superseded(f"{key!r}: the source of build {generation} changed or is gone")
            value = self._store(ticket, layers)
        except BaseException:
            self.abandon(ticket, "build failed")
            raise
        try:
            self._ledger.publish(self.owner, key, generation, value.stored.bytes)
        except BaseException:
            self._storage.free(value.stored)
            raise
        self._values[generation] = value
        self._sweep_quietly()
        return value.stored.layers

    def abandon(self, ticket: Ticket, reason: str) -> None:
        """End a build that failed; may be repeated, and does nothing to one that was published."""
        if self._ledger.can_publish(self.owner, ticket.identity.key, ticket.generation):
            self._ledger.invalidate(self.owner, ticket.identity.key, ticket.generation, reason)

    @contextmanager
    def build(self, identity: Identity, source: Tensor | None = None) -> Iterator[Ticket]:
        """`begin_build`, and `abandon` where the body raises or publishes nothing."""
        ticket = self.begin_build(identity, source)
        try:
            yield ticket
        finally:
            self.abandon(ticket, "build failed")

    # -- ends ----------------------------------------------------------------------------------------------

    def invalidate(
        self, cache: str | None = None, branch: int | None = None, reason: str = "invalidated"
    ) -> None:
        """Hide values and end builds: all, or those of one cache, of one branch, or of both."""
        for key, generation in self._present():
            name, _, number = key.rpartition("/")
            if cache in (None, name) and branch in (None, int(number)):
                self._ledger.invalidate(self.owner, key, generation, reason)
        self._sweep_quietly()

    def retain(self, names: Collection[str]) -> None:
        """Keep the caches of these names, in every branch, and invalidate all others."""
        for key, generation in self._present():
            if key.rpartition("/")[0] not in names:
                self._ledger.invalidate(self.owner, key, generation, "not retained")
        self._sweep_quietly()

    def close(self) -> None:
        """Free everything; may be repeated. Raises `StillLeased` while readers hold leases, and what the
        storage raises; what could not be freed then is freed by the next call.
        """
        for key, generation in self._present():
            self._ledger.invalidate(self.owner, key, generation, "closed")
        self._sweep()
        if self._values:
            raise StillLeased(f"{self.owner!r}: {len(self._values)} conditioning values are leased")

    # -- inside --------------------------------------------------------------------------------------------

    def _is_alive(self) -> bool:
        """Whether the id is not closed, nor another session's by now."""
        return self._life is not None and self._ledger.life(self.owner) == self._life

    def _find(self, identity: Identity, source: Tensor | None) -> tuple[int, Value] | None:
        entry = self._ledger.readable(self.owner, identity.key) if self._is_alive() else None
        if entry is None or entry.identity != identity.text:
            return None
        value = self._values[entry.generation]
        if value.guard is not None and not value.guard.holds(source):
            if not value.guard.holds():
                self._ledger.invalidate(self.owner, entry.key, entry.generation, "source changed")
                self._sweep_quietly()
            return None
        value.fence.wait(tensor for pair in value.stored.layers for tensor in pair)
        return entry.generation, value

    def _store(self, ticket: Ticket, layers: Sequence[LayerKV]) -> Value:
        stored = self._storage.put(layers, ticket.identity.representation)
        fence = ReadyFence(layers[0][0].device)
        fence.record()
        return Value(stored, ticket.guard, fence)

    def _present(self) -> list[tuple[str, int]]:
        state = self._ledger.live.owners.get(self.owner)
        if state is None or not self._is_alive():
            return []
        keys = [*state.readable.items(), *state.building.items()]
        return [(key, generation) for key, generation in keys if "/" in key]

    def _sweep(self) -> None:
        """Free what is hidden and not leased."""
        for generation in list(self._values):
            if self._ledger.can_release(self.owner, generation):
                entry = self._ledger.live.owners[self.owner].entries[generation]
                self._storage.free(self._values[generation].stored)
                self._ledger.released(self.owner, entry.key, generation)
                del self._values[generation]

    def _sweep_quietly(self) -> None:
        """A failed release must not harm the work at hand.

        It stays in the ledger, and the next sweep retries.
        """
        try:
            self._sweep()
        except Exception:
            _log.warning("%s: conditioning could not be released yet", self.owner, exc_info=True)


def _check(identity: Identity, layers: Sequence[LayerKV]) -> None:
    wanted = identity.representation
    if len(layers) != wanted.layers:
        raise IncompleteBuild(f"{identity.key!r}: got {len(layers)} layers, must be {wanted.layers}")
    for number, pair in enumerate(layers):
        for name, tensor in zip(("keys", "values"), pair, strict=True):
            came = (tuple(tensor.shape), tensor.dtype, str(tensor.device))
            must = (wanted.shape, DTYPES[wanted.dtype], wanted.device)
            if came != must:
                raise IncompleteBuild(
                    f"{identity.key!r}: {name} of layer {number}: got {came}, must be {must}"
                )
