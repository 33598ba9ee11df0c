"""All caches of one device: who may open, who is closed, and the one way to close."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from kvcache.capacity import CapacityPlan
from kvcache.conditioning import ConditioningScope
from kvcache.errors import CleanupFailed, OutOfMemory, OwnerClosed
from kvcache.geometry import Geometry
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.pool import BlockPool
from kvcache.storage import PlainStorage, Storage
from kvcache.view import KVView, open_view


@dataclass(frozen=True, slots=True, eq=False)
class SessionCaches:
    """What one session instance holds. `release` is called on close, in this order, and may be called
    again.
    """

    owner: str
    view: KVView
    conditioning: ConditioningScope

    def release(self) -> None:
        """Free everything that can be; raises the first error after all were tried."""
        errors = []
        for release in (self.conditioning.close, self.view.release):
            try:
                release()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


class CacheManager:
    """Opens session caches up to the plan's capacity. Used by one thread, the worker's.

    `memory` and `storage` decide where tensors lie; both default to plain ones, and faults are injected by
    subclass.
    """

    def __init__(
        self,
        geometry: Geometry,
        plan: CapacityPlan,
        memory: Memory,
        ledger: Ledger | None = None,
        storage: Storage | None = None,
    ) -> None:
        self.geometry = geometry
        self.plan = plan
        self.memory = memory
        self.ledger = ledger if ledger is not None else Ledger()
        self.storage = storage if storage is not None else PlainStorage(memory)
        self.pool = BlockPool(plan.managed_pages)
        self._open: OrderedDict[str, SessionCaches] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        """Sessions that hold memory, tombstones included."""
        return len(self._open)

    def __contains__(self, owner: str) -> bool:
        """Whether the owner holds memory."""
        return owner in self._open

    @property
    def is_full(self) -> bool:
        """Whether another session has to wait, or another one to go."""
        return len(self._open) >= self.plan.effective

    def open(self, owner: str) -> SessionCaches:
        """New caches for `owner`.

        Raises `OutOfMemory` at capacity, `OwnerExists`, `OwnerTombstoned`, and what the allocator raises;
        then nothing is left behind.
        """
        if self.is_full and owner not in self._open:
            raise OutOfMemory(f"{len(self._open)} of {self.plan.effective} sessions are open")
        self.ledger.open(owner)
        try:
            view = open_view(self.geometry, owner, self.ledger, self.memory, self.pool)
        except BaseException:
            self.ledger.begin_close(owner)
            self.ledger.close(owner)
            raise
        caches = SessionCaches(owner, view, ConditioningScope(owner, self.ledger, self.storage))
        self._open[owner] = caches
        return caches

    def admit(
        self, owner: str, busy: Collection[str] = (), evicted: Callable[[str], None] = lambda owner: None
    ) -> SessionCaches:
        """As `open`, but at capacity the least recently used session that is not busy is closed first.

        `evicted` is told of each one that is, so that its owner can be. One whose close fails stays a
        tombstone, and the next is tried. Raises `OutOfMemory` where all are busy or stuck.
        """
        if self.ledger.can_open(owner):
            for victim in self.idle(busy):
                if not self.is_full:
                    break
                try:
                    self.close(victim)
                except CleanupFailed:
                    continue
                evicted(victim)
        return self.open(owner)

    def idle(self, busy: Collection[str] = ()) -> list[str]:
        """Open sessions that are not busy, the least recently used first."""
        return [owner for owner in self._open if owner not in busy and self.ledger.is_open(owner)]

    def get(self, owner: str) -> SessionCaches:
        """The caches of an open session, now the most recently used. Raises `OwnerClosed`."""
        if not self.ledger.is_open(owner) or owner not in self._open:
            raise OwnerClosed(f"no open owner {owner!r}")
        self._open.move_to_end(owner)
        return self._open[owner]

    def close(self, owner: str) -> None:
        """Release everything of `owner` and free its id: the one way, for clients, eviction and failures
        alike.

        Does nothing where there is none. Raises `CleanupFailed` where a release raised: then the id is
        blocked, and calling again retries.
        """
        if not self.ledger.begin_close(owner):
            return
        caches = self._open.get(owner)
        try:
            if caches is not None:
                caches.release()
            self.ledger.close(owner)
        except Exception as error:
            self.ledger.cleanup_failed(owner, f"{type(error).__name__}: {error}")
            raise CleanupFailed(owner, str(error)) from error
        self._open.pop(owner, None)

    def close_all(self) -> None:
        """Close every session; raises the first `CleanupFailed` after all were tried."""
        errors = []
        for owner in list(self._open):
            try:
                self.close(owner)
            except CleanupFailed as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def is_balanced(self) -> bool:
        """Whether the ledger's facts, its live state and the allocators agree: asked of a running service.

        Only where nobody else uses this ledger and memory.
        """
        return self.ledger.is_consistent() and self.ledger.live_bytes == self.memory.live_bytes
