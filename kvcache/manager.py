"""All caches of one device: who may open, who is closed, and the one way to close."""

from __future__ import annotations

from dataclasses import dataclass

from kvcache.capacity import CapacityPlan, required_together
from kvcache.conditioning import ConditioningScope
from kvcache.errors import CleanupFailed, OutOfMemory
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
    geometry: Geometry
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
    """Opens session caches up to the plan's capacity and within its budget; without a plan, as many as
    there is memory. Used by one thread, the worker's. Whose turn it is to go where there is no room, the
    sessions' owner decides: it knows who is idle, and evicts through `close`.

    `memory` and `storage` decide where tensors lie; faults are injected by subclass.
    """

    def __init__(
        self,
        memory: Memory,
        plan: CapacityPlan | None = None,
        ledger: Ledger | None = None,
        storage: Storage | None = None,
    ) -> None:
        self.memory = memory
        self.plan = plan
        self.ledger = ledger if ledger is not None else Ledger()
        self.storage = storage if storage is not None else PlainStorage(memory)
        self.pool = None if plan is None else BlockPool(plan.managed_pages)
        self._open: dict[str, SessionCaches] = {}

    def __len__(self) -> int:
        """Sessions that hold memory, tombstones included."""
        return len(self._open)

    def __contains__(self, owner: str) -> bool:
        """Whether the owner holds memory."""
        return owner in self._open

    def has_room(self, geometry: Geometry) -> bool:
        """Whether another session of this size fits, in number and in bytes."""
        if self.plan is None:
            return True
        sizes = [geometry, *(caches.geometry for caches in self._open.values())]
        return len(sizes) <= self.plan.effective and required_together(sizes) <= self.plan.budget

    def open(self, owner: str, geometry: Geometry) -> SessionCaches:
        """New caches for `owner`.

        Raises `OutOfMemory` at capacity, `OwnerExists`, `OwnerTombstoned`, and what the allocator raises;
        then nothing is left behind.
        """
        if self.ledger.can_open(owner) and not self.has_room(geometry):
            raise OutOfMemory(f"no room for {owner!r}: {len(self._open)} sessions are open")
        self.ledger.open(owner)
        try:
            view = open_view(geometry, owner, self.ledger, self.memory, self.pool)
        except BaseException:
            self.ledger.begin_close(owner)
            self.ledger.close(owner)
            raise
        conditioning = ConditioningScope(owner, self.ledger, self.storage)
        caches = SessionCaches(owner, geometry, view, conditioning)
        self._open[owner] = caches
        return caches

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
