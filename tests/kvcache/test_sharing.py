"""The store of shared first chunks."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from kvcache.errors import OwnerClosed, StillHeld, Superseded
from kvcache.ledger import Ledger
from kvcache.sharing import FirstChunkInputs, SharingLease, SharingStore, open_sharing_store

INPUTS = FirstChunkInputs(
    image_digest="abc",
    prompt="a meadow",
    camera="[]",
    seed=1,
    width=96,
    height=64,
    fps=16,
    schedule="1000,750,500,250",
    media="h264",
    model_revision="m1",
    adapter_revision="",
)


@pytest.fixture
def store() -> SharingStore[bytes]:
    return open_sharing_store(Ledger(), 100, len)


def put(store: SharingStore[bytes], key: str, payload: bytes) -> bool:
    return store.publish(store.begin_build(key), payload)


def get(store: SharingStore[bytes], key: str) -> bytes | None:
    lease = store.lookup(key, "reader")
    if lease is None:
        return None
    lease.give_back()
    return lease.payload


@pytest.mark.parametrize("name", [item.name for item in fields(FirstChunkInputs)])
def test_a_key_differs_with_every_input(name: str) -> None:
    value = "other" if isinstance(INPUTS.__getattribute__(name), str) else 2
    assert replace(INPUTS, **{name: value}).key != INPUTS.key  # type: ignore[arg-type]
    assert replace(INPUTS).key == INPUTS.key


def test_what_moves_from_one_field_to_the_next_changes_the_key() -> None:
    assert replace(INPUTS, image_digest="ab", prompt="ca meadow").key != INPUTS.key


def test_a_hit_gives_the_very_payload(store: SharingStore[bytes]) -> None:
    assert put(store, "a", b"one")
    assert get(store, "a") == b"one"
    assert get(store, "b") is None
    assert (store.hits, store.misses) == (1, 1)


def test_an_unpublished_build_is_a_miss(store: SharingStore[bytes]) -> None:
    ticket = store.begin_build("a")
    assert get(store, "a") is None
    store.abandon(ticket)
    store.abandon(ticket)
    with pytest.raises(Superseded):
        store.publish(ticket, b"late")


def test_the_least_recently_used_entries_make_room(store: SharingStore[bytes]) -> None:
    put(store, "a", bytes(40))
    put(store, "b", bytes(40))
    get(store, "a")
    put(store, "c", bytes(40))
    assert get(store, "b") is None
    assert get(store, "a") == get(store, "c") == bytes(40)
    assert store.live_bytes == 80


def test_what_never_fits_is_not_kept_and_evicts_nothing(store: SharingStore[bytes]) -> None:
    put(store, "a", bytes(60))
    assert not put(store, "a", bytes(101))
    assert not put(store, "b", bytes(101))
    assert get(store, "a") == bytes(60)


def test_a_leased_entry_outlives_its_replacement_within_the_bound(store: SharingStore[bytes]) -> None:
    put(store, "a", b"x" * 60)
    lease = store.lookup("a", "world")
    assert lease is not None
    assert not put(store, "b", bytes(50))  # the leased bytes count
    assert put(store, "a", b"y" * 40)
    assert lease.payload == b"x" * 60
    assert get(store, "a") == b"y" * 40
    assert store.live_bytes == 100
    lease.give_back()
    lease.give_back()
    assert store.live_bytes == 40


def test_a_reload_empties_the_store_and_ends_its_builds(store: SharingStore[bytes]) -> None:
    put(store, "a", b"one")
    ticket = store.begin_build("b")
    store.clear("model loaded anew")
    assert len(store) == 0
    assert get(store, "a") is None
    with pytest.raises(Superseded):
        store.publish(ticket, b"of the old model")
    assert store.live_bytes == 0


def test_one_entry_can_be_invalidated(store: SharingStore[bytes]) -> None:
    put(store, "a", b"one")
    put(store, "b", b"two")
    ticket = store.begin_build("a")
    store.invalidate("a", "why")
    assert get(store, "a") is None
    assert get(store, "b") == b"two"
    with pytest.raises(Superseded):
        store.publish(ticket, b"late")


def test_a_newer_build_supersedes_an_older_one(store: SharingStore[bytes]) -> None:
    older, newer = store.begin_build("a"), store.begin_build("a")
    assert store.publish(newer, b"new")
    with pytest.raises(Superseded):
        store.publish(older, b"old")
    assert get(store, "a") == b"new"


def test_a_store_closes_when_every_lease_is_back() -> None:
    ledger = Ledger()
    store: SharingStore[bytes] = open_sharing_store(ledger, 100, len)
    put(store, "a", b"one")
    lease: SharingLease[bytes] | None = store.lookup("a", "world")
    assert lease is not None
    with pytest.raises(StillHeld):
        store.close()
    lease.give_back()
    store.close()
    store.close()
    assert ledger.live_bytes == store.live_bytes == 0
    assert get(store, "a") is None
    with pytest.raises(OwnerClosed):
        store.begin_build("a")
    assert ledger.is_consistent()
