"""A world played with a plain attention and with the contract: the same bits."""

import pytest
import torch
from attended_world import play, play_placed
from direct_attention import direct
from ranks import on_ranks
from torch import Tensor

torch.set_num_threads(1)

CHUNKS = 21
CHUNKS_OVER_RANKS = 7  # the view is full after three


def equal(ours: dict[str, list[Tensor]], theirs: dict[str, list[Tensor]]) -> dict[str, str]:
    """How many of each are bitwise equal, as `equal/all`."""
    counts = {}
    for name in ("probes", "latents", "frames"):
        pairs = list(zip(ours[name], theirs[name], strict=True))
        counts[name] = f"{sum(torch.equal(a, b) for a, b in pairs)}/{len(pairs)}"
    return counts


WHOLE = {"probes": "84/84", "latents": "84/84", "frames": "249/249"}
WHOLE_OVER_RANKS = {"probes": "28/28", "latents": "28/28", "frames": "81/81"}


def test_a_world_with_the_contract_is_the_one_with_a_plain_attention_bit_for_bit() -> None:
    calls = 0

    def counted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return direct(q, k, v)

    plain, contract = play(CHUNKS, lambda _: counted), play(CHUNKS)
    assert calls == CHUNKS * (
        4 * 2 * 2 + 2
    )  # 4 probes of 2 layers, self and cross; the commit skips the last
    assert equal(contract, plain) == WHOLE


def test_a_world_is_not_the_same_with_another_attention() -> None:
    """So that equality above is not that of something that attention has no part in."""
    plain, other = play(2, lambda _: direct), play(2, lambda _: lambda q, k, v: direct(q * 1.01, k, v))
    assert equal(other, plain)["probes"] == "0/8"


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request: pytest.FixtureRequest) -> list[dict]:
    return on_ranks(request.param, play_placed, CHUNKS_OVER_RANKS)


@pytest.mark.parametrize("sharded", ["queries", "keys"])
def test_a_world_over_ranks_is_the_one_with_a_plain_attention_at_the_same_topology(ranks, sharded) -> None:
    for worlds in ranks:
        assert equal(worlds[f"{sharded}, contract"], worlds[f"{sharded}, direct"]) == WHOLE_OVER_RANKS


def test_the_plain_attention_over_ranks_is_an_attention(ranks) -> None:
    for worlds in ranks:
        assert float(worlds["calls"]["worst"][0]) <= 2e-6


@pytest.mark.parametrize("sharded", ["queries", "keys"])
def test_the_ranks_of_a_world_do_not_drift_apart(ranks, sharded) -> None:
    for worlds in ranks[1:]:
        assert equal(worlds[f"{sharded}, contract"], ranks[0][f"{sharded}, contract"]) == WHOLE_OVER_RANKS
