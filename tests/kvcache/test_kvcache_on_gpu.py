"""What only a CUDA device can show: readers on other streams wait for the writer."""

from __future__ import annotations

import pytest
import torch

from kvcache.conditioning import ConditioningScope
from kvcache.geometry import Geometry
from kvcache.identity import Identity, Representation
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.storage import PlainStorage, open_paged_storage
from kvcache.view import open_view

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

LARGE = Representation(
    layers=4, batch=1, length=512, heads=8, head_dim=128, dtype="bfloat16", device="cuda:0"
)
TEXT = Identity("text", 0, "a meadow", "transformer", "1", "", LARGE)


@pytest.mark.parametrize("paged", [False, True])
def test_a_reader_on_another_stream_waits_until_the_value_is_written(paged: bool) -> None:
    ledger, memory = Ledger(), Memory("cuda:0")
    ledger.open("world")
    storage = open_paged_storage(LARGE, 64, 32, memory) if paged else PlainStorage(memory)
    scope = ConditioningScope("world", ledger, storage)
    writer, reader = torch.cuda.Stream(), torch.cuda.Stream()
    for number in range(1, 6):
        with torch.cuda.stream(writer):
            torch.cuda._sleep(50_000_000)  # tens of milliseconds: a reader that does not wait sees old memory
            layers = [
                (
                    torch.full(LARGE.shape, float(number), dtype=torch.bfloat16, device="cuda:0"),
                    torch.full(LARGE.shape, -float(number), dtype=torch.bfloat16, device="cuda:0"),
                )
                for _ in range(LARGE.layers)
            ]
            scope.publish(scope.begin_build(TEXT), layers)
        with torch.cuda.stream(reader):
            found = scope.lookup(TEXT)
            assert found is not None
            sums = [float(keys.float().mean()) for keys, _ in found]
        assert sums == [float(number)] * LARGE.layers
    torch.cuda.synchronize()
    scope.close()
    assert storage.live_bytes == 0


def requested() -> int:
    """Bytes asked of the device's allocator and not freed; those it gave are more, rounded up."""
    torch.cuda.synchronize()
    return int(torch.cuda.memory_stats().get("requested_bytes.all.current", 0))


def test_a_view_on_the_device_weighs_what_the_geometry_says() -> None:
    geometry = Geometry(
        layers=4,
        kv_heads=8,
        head_dim=128,
        dtype="bfloat16",
        tokens_per_frame=390,
        sink_frames=9,
        window_frames=9,
        frames_per_block=3,
    )
    before = requested()
    ledger, memory = Ledger(), Memory("cuda:0")
    ledger.open("world")
    view = open_view(geometry, "world", ledger, memory)
    assert memory.live_bytes == geometry.view_pages * geometry.page_bytes
    assert requested() - before == memory.live_bytes
    view.release()
    assert requested() == before


def test_memory_that_another_stream_still_reads_is_not_given_away() -> None:
    """The reader's stream is recorded: without that, the next allocation would overwrite what it reads."""
    ledger, memory = Ledger(), Memory("cuda:0")
    ledger.open("world")
    scope = ConditioningScope("world", ledger, PlainStorage(memory))
    writer, reader = torch.cuda.Stream(), torch.cuda.Stream()

    def layers(value: float) -> list[tuple[torch.Tensor, torch.Tensor]]:
        make = [torch.full(LARGE.shape, value, dtype=torch.bfloat16, device="cuda:0") for _ in range(8)]
        return list(zip(make[::2], make[1::2], strict=True))

    with torch.cuda.stream(writer):
        scope.publish(scope.begin_build(TEXT), layers(1.0))
    with torch.cuda.stream(reader):
        found = scope.lookup(TEXT)
        assert found is not None
        torch.cuda._sleep(200_000_000)  # the host runs ahead of the read
        sums = [keys.float().mean() for keys, _ in found]
    del found
    with torch.cuda.stream(writer):
        scope.invalidate()  # frees it, while the reader has not read yet
        others = layers(2.0)
    torch.cuda.synchronize()
    assert [float(one) for one in sums] == [1.0] * LARGE.layers
    assert len(others) == LARGE.layers
    scope.close()
