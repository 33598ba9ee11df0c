"""Replacements under leases, builds against invalidations: many times, and nothing is left."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import torch
from growth import LIMIT, resident, scales

from kvcache.conditioning import ConditioningScope, Ticket
from kvcache.errors import Superseded
from kvcache.identity import Identity, Representation
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.sharing import SharingLease, SharingTicket, open_sharing_store
from kvcache.storage import LayerKV, PlainStorage, Storage, open_paged_storage
from kvcache.view import ViewState

torch.set_num_threads(1)

TEXT = Representation(layers=2, batch=1, length=5, heads=2, head_dim=8, dtype="float32", device="cpu")


def identity_of(prompt: str) -> Identity:
    return Identity("text", 0, prompt, "transformer", "1", "", TEXT)


def text_of(number: float) -> list[LayerKV]:
    return [(torch.full(TEXT.shape, number), torch.full(TEXT.shape, -number)) for _ in range(TEXT.layers)]


def first_chunk(number: int) -> ViewState:
    tensors = tuple(torch.full((1, 2, 12, 8), float(number)) for _ in range(2))
    return ViewState(3, tensors, tensors)


def weigh(payload: ViewState) -> int:
    return sum(tensor.nbytes for tensor in payload.keys + payload.values)


@pytest.mark.parametrize("replacements", scales(128, 2560))
def test_replacements_of_leased_entries_leave_nothing(replacements: int) -> None:
    ledger, size = Ledger(), weigh(first_chunk(0))
    store = open_sharing_store(ledger, 6 * size, weigh)
    out: list[tuple[int, SharingLease[ViewState]]] = []
    warm = 0
    for number in range(replacements + 1):
        key = f"inputs {number % 2}"
        assert store.publish(store.begin_build(key), first_chunk(number))
        lease = store.lookup(key, f"world {number}")
        assert lease is not None
        out.append((number, lease))
        if len(out) > 3:
            old, lease = out.pop(0)
            assert bool((lease.payload.keys[1] == old).all()), "a leased entry was overwritten"
            lease.give_back()
        assert store.live_bytes == ledger.live_bytes <= 6 * size
        if number == replacements // 8:
            warm = resident()
    assert ledger.is_consistent()
    for _, lease in out:
        lease.give_back()
    store.close()
    assert store.live_bytes == ledger.live_bytes == 0
    assert ledger.live.owners == {}
    assert resident() - warm < LIMIT


STEPS = ("begin 1", "publish 1", "begin 2", "publish 2", "invalidate", "lease", "give back")


def interleavings() -> Iterator[tuple[str, ...]]:
    """Every order of two builds, an invalidation and a reader in which each keeps its own order: 630."""
    for order in itertools.permutations(range(len(STEPS))):
        place = {STEPS[step]: order[step] for step in range(len(STEPS))}
        ordered = (("begin 1", "publish 1"), ("begin 2", "publish 2"), ("lease", "give back"))
        if all(place[first] < place[then] for first, then in ordered):
            yield tuple(sorted(STEPS, key=place.__getitem__))


def storage_of(name: str, memory: Memory) -> Storage:
    return PlainStorage(memory) if name == "plain" else open_paged_storage(TEXT, 4, 16, memory)


@pytest.mark.parametrize("prompts", [("a", "a"), ("a", "b")], ids=["one prompt", "two prompts"])
@pytest.mark.parametrize("storage_name", ["plain", "paged"])
def test_every_interleaving_of_builds_and_an_invalidation_ends_as_the_rules_say(
    prompts: tuple[str, str], storage_name: str
) -> None:
    orders = list(interleavings())
    assert len(orders) == 630
    for order in orders:
        run_interleaving(order, prompts, storage_name)


def run_interleaving(order: tuple[str, ...], prompts: tuple[str, str], storage_name: str) -> None:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    storage = storage_of(storage_name, memory)
    scope = ConditioningScope("world", ledger, storage)
    tickets: dict[str, Ticket] = {}
    newest, readable = "", ""
    lease = None
    for step in order:
        action, _, number = step.partition(" ")
        if action == "begin":
            tickets[number] = scope.begin_build(identity_of(prompts[int(number) - 1]))
            if readable and prompts[int(readable) - 1] != prompts[int(number) - 1]:
                readable = ""
            newest = number
        elif action == "publish":
            try:
                scope.publish(tickets[number], text_of(float(number)))
            except Superseded:
                assert newest != number, order
            else:
                assert newest == number, order
                newest, readable = "", number
        elif action == "invalidate":
            scope.invalidate()
            newest = readable = ""
        elif action == "lease" and readable:
            lease = scope.lease(identity_of(prompts[int(readable) - 1]), "reader")
            assert lease is not None
            held = float(readable)
        elif action == "give" and lease is not None:
            assert bool((lease.layers[1][0] == held).all()), order
            lease.give_back()
        for prompt in prompts:
            found = scope.lookup(identity_of(prompt))
            if readable and prompts[int(readable) - 1] == prompt:
                assert found is not None and bool((found[0][0] == float(readable)).all()), order
            else:
                assert found is None, order
        assert ledger.live_bytes == storage.live_bytes
    scope.close()
    ledger.begin_close("world")
    ledger.close("world")
    assert ledger.live_bytes == storage.live_bytes == 0


@pytest.mark.parametrize("rounds", scales(64, 640))
def test_builds_against_invalidations_on_two_threads_leave_nothing(rounds: int) -> None:
    ledger = Ledger()
    store = open_sharing_store(ledger, 10**6, weigh)
    start, published = threading.Barrier(2), 0

    def invalidate() -> None:
        for _ in range(rounds):
            start.wait()
            store.invalidate("inputs", "raced")

    other = threading.Thread(target=invalidate)
    other.start()
    for number in range(rounds):
        ticket: SharingTicket = store.begin_build("inputs")
        start.wait()
        with suppress(Superseded):
            published += store.publish(ticket, first_chunk(number))
        lease = store.lookup("inputs", "reader")
        if lease is not None:
            assert bool((lease.payload.keys[0] == number).all())
            lease.give_back()
    other.join()
    assert ledger.is_consistent()
    assert ledger.live_bytes == store.live_bytes
    assert published > 0
    store.close()
    assert store.live_bytes == 0
