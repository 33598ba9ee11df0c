import pytest
import torch
from placed import all_of_it
from ranks import on_ranks

torch.set_num_threads(1)


@pytest.fixture(scope="module", params=[2, 4])
def group(request: pytest.FixtureRequest) -> list[dict]:
    return on_ranks(request.param, all_of_it)


def test_a_placed_call_gives_what_one_process_gives(group: list[dict]) -> None:
    for answers in group:
        assert {name: worst for name, worst in answers["differences"].items() if not worst <= 2e-6} == {}


def test_both_ways_to_shard_keys_were_taken_and_every_kind_of_share(group: list[dict]) -> None:
    names = set(group[0]["differences"])
    for way in ("local q", "HeadExchange", "PartialSums"):
        for share in ("even", "unequal", "empty"):
            assert [name for name in names if name.startswith(way) and name.endswith(share)]


def test_every_rank_has_the_same_bits(group: list[dict]) -> None:
    for answers in group[1:]:
        for ours, first in zip(answers["results"], group[0]["results"], strict=True):
            assert torch.equal(ours, first)


def test_an_illegal_placed_request_is_told_what_came_and_what_was_expected(group: list[dict]) -> None:
    world = len(group)
    for rank, answers in enumerate(group):
        assert answers["refusals"] == {
            "no layout": "layout: expected the shards of q, got NoneType",
            "a packing": "layout: expected the shards of k, got Packing",
            "shards of another group": f"layout: expected {world} shards, one per rank, got {world + 1}",
            "another rank's shards": (
                f"layout: expected the shards as rank {rank} sees them, got rank {(rank + 1) % world}"
            ),
            "a share of another length": "k: expected length 6, this rank's share, got 5",
            "queries of another length": "q: expected length 4, this rank's share, got 3",
            "a mask that is cut already": (
                f"mask: expected (batch, queries, keys) (1, {4 * world}, 6), got (1, 4, 6)"
            ),
            "a mask of the shard's keys": (
                f"mask: expected (batch, queries, keys) (1, 4, {6 * world}), got (1, 4, 6)"
            ),
            "a mask of the heads' keys": (
                f"mask: expected (batch, queries, keys) (1, 4, {6 * world}), got (1, 4, 6)"
            ),
            "no queries": "q: expected at least 1 token, got shape (1, 0, 3, 8)",
            "no keys": "k: expected at least 1 token, got shape (1, 0, 4, 8)",
            "compressed heads": "k: expected 4 heads, got 3",
            "a group for none": "group: expected none for placement none, got a process group",
        }
