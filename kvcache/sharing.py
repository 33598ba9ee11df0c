"""First chunks that sessions with the same inputs share: a bounded store, keyed on the inputs alone.

The key is taken before anything is denoised, so that a hit skips the whole block. What is stored is
generic; its producer hands over copies, and a reader copies what it restores into memory of its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from threading import RLock
from typing import Generic, TypeVar

from kvcache.ledger import Ledger

_log = logging.getLogger(__name__)

Payload = TypeVar("Payload")

OWNER = "shared first chunks"
"""The store's owner in the ledger."""


@dataclass(frozen=True, slots=True)
class FirstChunkInputs:
    """Everything that a session's first chunk follows from."""

    image_digest: str  # of the decoded pixels at the session's size
    prompt: str
    camera: str  # the first block's conditioning and the scene's origin, as canonical JSON
    seed: int
    width: int
    height: int
    fps: int
    schedule: str  # sigmas, prediction type, flow shift
    media: str  # encoder, its settings and their versions
    model_revision: str
    adapter_revision: str

    @property
    def key(self) -> str:
        """SHA-256 of all fields, each under its name."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SharingTicket:
    """The right to publish one build, as long as no newer build or invalidation overtakes it."""

    key: str
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class SharingLease(Generic[Payload]):
    """A payload that stays until it is given back, though its entry be replaced. `give_back` may be
    repeated.
    """

    payload: Payload
    give_back: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Held(Generic[Payload]):
    key: str
    payload: Payload
    bytes: int


class SharingStore(Generic[Payload]):
    """Entries by key, the least recently used of which make room for new ones.

    `weigh` gives a payload's bytes, and `free` is called once for each payload that was published. All
    entries together, those that are only kept by leases included, weigh at most `max_bytes`. May be called
    from any thread. `owner` must be open in the ledger (see `open_sharing_store`).
    """

    def __init__(
        self,
        ledger: Ledger,
        max_bytes: int,
        weigh: Callable[[Payload], int],
        free: Callable[[Payload], None],
        owner: str = OWNER,
    ) -> None:
        self.owner = owner
        self.max_bytes = max_bytes
        self.hits = 0
        self.misses = 0
        self._ledger = ledger
        self._weigh = weigh
        self._free = free
        self._lock = RLock()
        self._held: dict[int, _Held[Payload]] = {}  # by generation
        self._recent: OrderedDict[str, int] = OrderedDict()  # readable keys -> generation, newest last
        self._bytes = 0

    @property
    def live_bytes(self) -> int:
        """Bytes of all payloads that are kept."""
        return self._bytes

    def __len__(self) -> int:
        """How many keys a reader can hit."""
        return len(self._recent)

    def lookup(self, key: str, holder: str) -> SharingLease[Payload] | None:
        """The payload of exactly these inputs, leased to `holder`; `None` is a miss."""
        with self._lock:
            generation = self._recent.get(key)
            if generation is None:
                self.misses += 1
                return None
            self.hits += 1
            self._recent.move_to_end(key)
            lease = self._ledger.lease(self.owner, key, generation, holder)
            payload = self._held[generation].payload

        def give_back() -> None:
            with self._lock:
                self._ledger.give_back(self.owner, key, generation, lease)
                self._sweep()

        return SharingLease(payload, give_back)

    def begin_build(self, key: str) -> SharingTicket:
        """Begin a build; older ones of the same key can't publish any more. Raises `OwnerClosed`."""
        with self._lock:
            return SharingTicket(key, self._ledger.begin(self.owner, key, key))

    def publish(self, ticket: SharingTicket, payload: Payload) -> bool:
        """Make a build readable, in place of what the key held before.

        Raises `Superseded` where it was overtaken. False, and nothing kept, where it does not fit though
        every entry that nobody leases made room for it.
        """
        with self._lock:
            size = self._weigh(payload)
            if self._ledger.can_publish(self.owner, ticket.key, ticket.generation) and not self._make_room(
                ticket.key, size
            ):
                self.abandon(ticket)
                return False
            self._ledger.publish(self.owner, ticket.key, ticket.generation, size)
            self._held[ticket.generation] = _Held(ticket.key, payload, size)
            self._bytes += size
            self._recent[ticket.key] = ticket.generation
            self._recent.move_to_end(ticket.key)
            self._sweep()
            return True

    def abandon(self, ticket: SharingTicket) -> None:
        """End a build that failed; may be repeated, and does nothing to one that was published."""
        with self._lock:
            if self._ledger.can_publish(self.owner, ticket.key, ticket.generation):
                self._ledger.invalidate(self.owner, ticket.key, ticket.generation, "build failed")

    def invalidate(self, key: str, reason: str) -> None:
        """Hide one entry and end its builds."""
        with self._lock:
            state = self._ledger.live.owners.get(self.owner)
            if state is not None and (building := state.building.get(key)) is not None:
                self._ledger.invalidate(self.owner, key, building, reason)
            if (generation := self._recent.pop(key, None)) is not None:
                self._ledger.invalidate(self.owner, key, generation, reason)
            self._sweep()

    def clear(self, reason: str) -> None:
        """Hide every entry and end every build, as where the model is loaded anew."""
        with self._lock:
            state = self._ledger.live.owners.get(self.owner)
            building = set(state.building) if state is not None else set()
            for key in building | set(self._recent):
                self.invalidate(key, reason)

    def close(self) -> None:
        """Empty the store and close its owner; may be repeated. Raises `StillHeld` while leases are out."""
        with self._lock:
            if not self._ledger.begin_close(self.owner):
                return
            self._recent.clear()
            self._sweep()
            self._ledger.close(self.owner)

    def _make_room(self, key: str, size: int) -> bool:
        """Evict, the least recently used first, until `size` more bytes fit; changes nothing where they
        never will. The key's own entry goes in any case: it is replaced.
        """
        leased = sum(held.bytes for generation, held in self._held.items() if self._is_leased(generation))
        if leased + size > self.max_bytes:
            return False
        self._hide(key, "superseded")
        while self._bytes + size > self.max_bytes and self._recent:
            self._hide(next(iter(self._recent)), "evicted")
        return self._bytes + size <= self.max_bytes

    def _is_leased(self, generation: int) -> bool:
        return bool(self._ledger.live.owners[self.owner].entries[generation].leases)

    def _hide(self, key: str, reason: str) -> None:
        if (generation := self._recent.pop(key, None)) is not None:
            self._ledger.invalidate(self.owner, key, generation, reason)
            self._sweep()

    def _sweep(self) -> None:
        """Let go of what is hidden and not leased."""
        for generation, held in list(self._held.items()):
            if self._ledger.can_release(self.owner, generation):
                try:
                    self._free(held.payload)
                except Exception:  # must not harm the work at hand: the next sweep retries
                    _log.warning("%s: a payload could not be freed yet", self.owner, exc_info=True)
                    continue
                del self._held[generation]
                self._bytes -= held.bytes
                self._ledger.released(self.owner, held.key, generation)


def open_sharing_store(
    ledger: Ledger,
    max_bytes: int,
    weigh: Callable[[Payload], int],
    free: Callable[[Payload], None] = lambda payload: None,
    owner: str = OWNER,
) -> SharingStore[Payload]:
    """An empty store, its owner opened in the ledger."""
    ledger.open(owner)
    return SharingStore(ledger, max_bytes, weigh, free, owner)
