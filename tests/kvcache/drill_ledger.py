"""The ledger against the simplest dictionaries that say the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from drill import Draw, expect, pick

from kvcache.errors import LedgerError, OwnerClosed, OwnerExists, OwnerTombstoned, StillHeld, Superseded
from kvcache.ledger import Ledger


@dataclass
class ModelEntry:
    key: str
    identity: str
    state: str = "building"
    bytes: int = 0
    leases: set[int] = field(default_factory=set)


@dataclass
class ModelOwner:
    phase: str = "open"
    entries: dict[int, ModelEntry] = field(default_factory=dict)

    def of(self, key: str, state: str) -> list[int]:
        return [n for n, entry in self.entries.items() if entry.key == key and entry.state == state]

    def hide(self, generation: int) -> None:
        if self.entries[generation].state == "building":
            del self.entries[generation]
        else:
            self.entries[generation].state = "hidden"


class LedgerDrill:
    """The ledger's rules against the simplest dictionaries that say the same."""

    OWNERS = ("a", "b")
    KEYS = ("text", "view")

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.model: dict[str, ModelOwner] = {}
        self.generations: list[int] = []
        self.operations = (
            self.open,
            self.begin,
            self.begin,
            self.publish,
            self.publish,
            self.invalidate,
            self.lease,
            self.give_back,
            self.release,
            self.release,
            self.begin_close,
            self.fail,
            self.close,
        )

    def owner(self, draw: Draw) -> tuple[str, ModelOwner]:
        name = pick(draw, self.OWNERS)
        return name, self.model.get(name, ModelOwner("closed"))

    def entry(self, draw: Draw) -> tuple[str, ModelOwner, int, ModelEntry]:
        """Mostly one that is there, and now and then one that is not."""
        name, owner = self.owner(draw)
        numbers = [*owner.entries, *self.generations[-1:]] or [1]
        number = pick(draw, numbers)
        return name, owner, number, owner.entries.get(number, ModelEntry(pick(draw, self.KEYS), "", "absent"))

    def open(self, draw: Draw) -> None:
        name, owner = self.owner(draw)
        kind = OwnerTombstoned if owner.phase == "tombstone" else OwnerExists
        expect(owner.phase == "closed", kind, lambda: self.ledger.open(name))
        self.model.setdefault(name, ModelOwner())

    def begin(self, draw: Draw) -> None:
        name, owner = self.owner(draw)
        key, identity = pick(draw, self.KEYS), pick(draw, ("x", "y"))
        kind = OwnerTombstoned if owner.phase == "tombstone" else OwnerClosed
        number = expect(owner.phase == "open", kind, lambda: self.ledger.begin(name, key, identity))
        if number is None:
            return
        assert not self.generations or number > self.generations[-1]
        self.generations.append(number)
        for older in owner.of(key, "building"):
            owner.hide(older)
        for older in owner.of(key, "published"):
            if owner.entries[older].identity != identity:
                owner.hide(older)
        owner.entries[number] = ModelEntry(key, identity)

    def publish(self, draw: Draw) -> None:
        name, owner, number, entry = self.entry(draw)
        size, allowed = draw.below(50), entry.state == "building"
        assert self.ledger.can_publish(name, entry.key, number) == allowed
        expect(allowed, LedgerError, lambda: self.ledger.publish(name, entry.key, number, size))
        if allowed:
            for older in owner.of(entry.key, "published"):
                owner.hide(older)
            entry.state, entry.bytes = "published", size

    def invalidate(self, draw: Draw) -> None:
        name, owner, number, entry = self.entry(draw)
        allowed = entry.state in ("building", "published")
        assert self.ledger.invalidate(name, entry.key, number, "drill") == allowed
        if allowed:
            owner.hide(number)

    def lease(self, draw: Draw) -> None:
        name, _, number, entry = self.entry(draw)
        kind = Superseded if name in self.model else OwnerClosed
        allowed = entry.state == "published"
        lease = expect(allowed, kind, lambda: self.ledger.lease(name, entry.key, number, "drill"))
        if lease is not None:
            entry.leases.add(lease)

    def give_back(self, draw: Draw) -> None:
        name, _, number, entry = self.entry(draw)
        lease = pick(draw, [*sorted(entry.leases), 0])
        assert self.ledger.give_back(name, entry.key, number, lease) == (lease in entry.leases)
        entry.leases.discard(lease)

    def release(self, draw: Draw) -> None:
        name, owner, number, entry = self.entry(draw)
        allowed = entry.state == "absent" or (entry.state == "hidden" and not entry.leases)
        assert self.ledger.can_release(name, number) == (allowed and entry.state == "hidden")
        released = expect(allowed, LedgerError, lambda: self.ledger.released(name, entry.key, number))
        if released:
            del owner.entries[number]

    def begin_close(self, draw: Draw) -> None:
        name, owner = self.owner(draw)
        if draw.below(4):
            return  # else nothing lives long enough to be interesting
        assert self.ledger.begin_close(name) == (owner.phase != "closed")
        if owner.phase != "closed":
            owner.phase = "closing"
            for number in list(owner.entries):
                owner.hide(number)

    def fail(self, draw: Draw) -> None:
        name, owner = self.owner(draw)
        allowed = owner.phase == "closing"
        expect(allowed, LedgerError, lambda: self.ledger.cleanup_failed(name, "drill"))
        if allowed:
            owner.phase = "tombstone"

    def close(self, draw: Draw) -> None:
        name, owner = self.owner(draw)
        allowed = owner.phase == "closed" or (owner.phase == "closing" and not owner.entries)
        kind = StillHeld if owner.phase == "closing" else LedgerError
        expect(allowed, kind, lambda: self.ledger.close(name))
        if allowed:
            self.model.pop(name, None)

    def check(self) -> None:
        assert self.ledger.is_consistent()
        entries = [entry for owner in self.model.values() for entry in owner.entries.values()]
        assert self.ledger.live_bytes == sum(entry.bytes for entry in entries)
        for name in self.OWNERS:
            owner = self.model.get(name, ModelOwner("closed"))
            live = self.ledger.live.owners.get(name)
            assert ("closed" if live is None else live.phase) == owner.phase
            assert (self.ledger.tombstone(name) is not None) == (owner.phase == "tombstone")
            for key in self.KEYS:
                readable = self.ledger.readable(name, key)
                assert ([readable.generation] if readable else []) == owner.of(key, "published")

    def finish(self) -> None:
        for name, owner in self.model.items():
            self.ledger.begin_close(name)
            for number, entry in owner.entries.items():
                for lease in entry.leases:
                    self.ledger.give_back(name, entry.key, number, lease)
                self.ledger.released(name, entry.key, number)
            self.ledger.close(name)
        assert self.ledger.live_bytes == 0
        assert self.ledger.live.owners == {}
        assert self.ledger.is_consistent()
