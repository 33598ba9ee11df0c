"""What tests of the conditioning scope share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from scope_bench import REPRESENTATION, Bench

from kvcache.conditioning import ConditioningScope
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import PlainStorage, open_paged_storage

torch.set_num_threads(1)


@pytest.fixture(params=["plain", "paged"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    storage = (
        PlainStorage(memory)
        if request.param == "plain"
        else open_paged_storage(REPRESENTATION, 2, 30, memory)
    )
    bench = Bench(ledger, memory, storage, ConditioningScope("world", ledger, storage))
    yield bench
    assert ledger.is_consistent()
    assert ledger.live_bytes == storage.live_bytes
    bench.scope.close()
    assert ledger.live.owners["world"].live_bytes == 0
