"""The store of shared chunks."""

from __future__ import annotations

from drill import Draw, expect, pick

from kvcache.errors import (
    StillHeld,
    Superseded,
)
from kvcache.ledger import Ledger
from kvcache.sharing import SharingLease, SharingStore, SharingTicket, open_sharing_store


class SharingDrill:
    """The sharing store; a payload is a tuple (key, number, bytes)."""

    LIMIT = 100

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.store: SharingStore[tuple[str, int, int]] = open_sharing_store(
            self.ledger, self.LIMIT, lambda payload: payload[2]
        )
        self.newest: dict[str, SharingTicket] = {}
        self.tickets: list[SharingTicket] = []
        self.readable: dict[str, tuple[str, int, int]] = {}  # least recently used first
        self.leases: list[tuple[SharingLease[tuple[str, int, int]], tuple[str, int, int]]] = []
        self.next = 0
        self.operations = (
            self.lookup,
            self.lookup,
            self.begin,
            self.begin,
            self.publish,
            self.publish,
            self.abandon,
            self.invalidate,
            self.clear,
            self.give_back,
            self.give_back,
        )

    def key(self, draw: Draw) -> str:
        return pick(draw, "abcdef")

    def lookup(self, draw: Draw) -> None:
        key = self.key(draw)
        lease = self.store.lookup(key, "drill")
        if key not in self.readable:
            assert lease is None
            return
        assert lease is not None
        assert lease.payload == self.readable[key]
        self.readable[key] = self.readable.pop(key)
        if len(self.leases) < 4:
            self.leases.append((lease, lease.payload))
        else:
            lease.give_back()

    def begin(self, draw: Draw) -> None:
        key = self.key(draw)
        self.newest[key] = self.store.begin_build(key)
        self.tickets = [*self.tickets[-5:], self.newest[key]]

    def publish(self, draw: Draw) -> None:
        if not self.tickets:
            return
        ticket = pick(draw, self.tickets)
        self.next += 1
        payload = (ticket.key, self.next, 1 + draw.below(60))
        current = self.newest.get(ticket.key) is ticket
        fits = expect(current, Superseded, lambda: self.store.publish(ticket, payload))
        if not current:
            return
        del self.newest[ticket.key]
        leased = {held for _, held in self.leases}
        assert fits == (sum(held[2] for held in leased) + payload[2] <= self.LIMIT)
        if fits:
            self.readable.pop(ticket.key, None)
            while sum(p[2] for p in leased | set(self.readable.values())) + payload[2] > self.LIMIT:
                del self.readable[next(iter(self.readable))]
            self.readable[ticket.key] = payload

    def abandon(self, draw: Draw) -> None:
        if self.tickets:
            ticket = pick(draw, self.tickets)
            self.store.abandon(ticket)
            if self.newest.get(ticket.key) is ticket:
                del self.newest[ticket.key]

    def invalidate(self, draw: Draw) -> None:
        key = self.key(draw)
        self.store.invalidate(key, "drill")
        self.newest.pop(key, None)
        self.readable.pop(key, None)

    def clear(self, draw: Draw) -> None:
        if draw.below(6) == 0:
            self.store.clear("drill")
            self.newest.clear()
            self.readable.clear()

    def give_back(self, draw: Draw) -> None:
        if self.leases:
            lease, payload = self.leases.pop(draw.below(len(self.leases)))
            assert lease.payload == payload
            lease.give_back()
            lease.give_back()

    def check(self) -> None:
        assert self.ledger.is_consistent()
        kept = {held for _, held in self.leases} | set(self.readable.values())
        assert self.store.live_bytes == self.ledger.live_bytes == sum(payload[2] for payload in kept)
        assert self.store.live_bytes <= self.LIMIT
        assert len(self.store) == len(self.readable)

    def finish(self) -> None:
        if self.leases:
            expect(False, StillHeld, self.store.close)
        for lease, _ in self.leases:
            lease.give_back()
        self.store.close()
        assert self.store.live_bytes == self.ledger.live_bytes == 0
        assert self.ledger.live.owners == {}
