"""The view: writes, commits, rollbacks, snapshots, release."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from failing_memory import FailingMemory
from torch import Tensor

from kvcache.errors import OwnerClosed, RestoreRefused
from kvcache.geometry import Geometry
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.view import KVView, open_view

torch.set_num_threads(1)

SMALL = Geometry(
    layers=2,
    kv_heads=3,
    head_dim=4,
    dtype="float32",
    tokens_per_frame=2,
    sink_frames=3,
    window_frames=6,
    frames_per_block=3,
)
WRAPPING = replace(SMALL, sink_frames=4, window_frames=7)
GUIDED = replace(SMALL, branches=2)


def new_view(geometry: Geometry = SMALL) -> KVView:
    ledger = Ledger()
    ledger.open("world")
    return open_view(geometry, "world", ledger, Memory())


def block_of(geometry: Geometry, seed: int) -> Tensor:
    """Keys and values of one block in all layers: [layers, 2, B, H, block tokens, D]."""
    generator = torch.Generator().manual_seed(seed)
    tokens = geometry.frames_per_block * geometry.tokens_per_frame
    shape = (geometry.layers, 2, geometry.branches, geometry.kv_heads, tokens, geometry.head_dim)
    return torch.randn(shape, generator=generator)


def run_block(view: KVView, seed: int, probes: int = 1) -> list[tuple[Tensor, Tensor]]:
    """What each layer's last write sees, after probes that leave other numbers behind."""
    block = view.begin()
    for probe in range(probes):
        other = block_of(view.geometry, 10_000 + seed * 10 + probe)
        for layer in range(view.geometry.layers):
            block.write(layer, *other[layer])
    mine = block_of(view.geometry, seed)
    return [block.write(layer, *mine[layer]) for layer in range(view.geometry.layers)]


def frames_of(tokens: Tensor, geometry: Geometry) -> set[bytes]:
    """[B, H, tokens, D] as a set of frames, so that their order does not count."""
    frames = tokens.split(geometry.tokens_per_frame, dim=2)  # type: ignore[no-untyped-call]
    return {frame.contiguous().numpy().tobytes() for frame in frames}


@pytest.mark.parametrize("geometry", [SMALL, WRAPPING, GUIDED])
def test_every_block_sees_sink_recent_frames_and_itself(geometry: Geometry) -> None:
    view = new_view(geometry)
    history: list[Tensor] = []
    for number in range(9):
        seen = run_block(view, number)
        view.commit()
        history.append(block_of(geometry, number))
        for layer in range(geometry.layers):
            for side in range(2):
                past = torch.cat([block[layer, side] for block in history], dim=2)
                tokens = past.shape[2]
                sink = min(tokens, geometry.sink_frames * geometry.tokens_per_frame)
                recent = max(sink, tokens - geometry.window_frames * geometry.tokens_per_frame)
                expected = torch.cat([past[:, :, :sink], past[:, :, recent:]], dim=2)
                assert frames_of(seen[layer][side], geometry) == frames_of(expected, geometry)
    assert view.frames == 27


@pytest.mark.parametrize("geometry", [SMALL, WRAPPING])
def test_a_rolled_back_block_leaves_no_trace(geometry: Geometry) -> None:
    disturbed, calm = new_view(geometry), new_view(geometry)
    for number in range(7):
        run_block(disturbed, 500 + number, probes=3)
        disturbed.rollback()
        seen = [(k.clone(), v.clone()) for k, v in run_block(disturbed, number)]
        for (k, v), (calm_k, calm_v) in zip(seen, run_block(calm, number), strict=True):
            assert torch.equal(k, calm_k)
            assert torch.equal(v, calm_v)
        disturbed.commit()
        calm.commit()


@pytest.mark.parametrize("geometry", [SMALL, WRAPPING, GUIDED])
@pytest.mark.parametrize("blocks", range(7))
def test_a_restored_view_goes_on_bit_for_bit_and_in_the_same_slots(geometry: Geometry, blocks: int) -> None:
    view = new_view(geometry)
    for number in range(blocks):
        run_block(view, number)
        view.commit()
    state = view.state()
    run_block(view, 77)
    view.rollback()  # the state was a copy
    revived = new_view(geometry)
    run_block(revived, 999)
    revived.commit()
    revived.restore(state)
    assert revived.frames == view.frames == blocks * 3
    for number in range(blocks, blocks + 4):
        for ours, theirs in zip(run_block(revived, number), run_block(view, number), strict=True):
            assert torch.equal(ours[0], theirs[0])
            assert torch.equal(ours[1], theirs[1])
        revived.commit()
        view.commit()


def test_a_snapshot_holds_no_frame_that_the_next_block_overwrites() -> None:
    view = new_view()
    for number in range(6):
        run_block(view, number)
        view.commit()
    assert view.state().keys[0].shape == (1, 3, 2 * (9 - 3), 4)


def test_a_state_of_other_sizes_is_refused_and_changes_nothing() -> None:
    view, other = new_view(), new_view(replace(SMALL, head_dim=8))
    run_block(view, 1)
    view.commit()
    run_block(other, 1)
    other.commit()
    with pytest.raises(RestoreRefused, match=r"keys\[0\]: got \(1, 3, 6, 8\).*must be \(1, 3, 6, 4\)"):
        view.restore(other.state())
    with pytest.raises(RestoreRefused, match="whole blocks of 3"):
        view.restore(replace(view.state(), frames=4))
    with pytest.raises(RestoreRefused, match="values: got 1 layers, must be 2"):
        view.restore(replace(view.state(), values=view.state().values[:1]))
    assert view.frames == 3


def test_a_reset_view_is_as_a_new_one() -> None:
    view, fresh = new_view(), new_view()
    for number in range(5):
        run_block(view, number)
        view.commit()
    view.reset()
    for ours, theirs in zip(run_block(view, 8), run_block(fresh, 8), strict=True):
        assert torch.equal(ours[0], theirs[0])


def test_a_view_weighs_its_pages_and_gives_them_all_back() -> None:
    ledger, memory = Ledger(), Memory()
    ledger.open("world")
    view = open_view(GUIDED, "world", ledger, memory)
    assert ledger.live_bytes == memory.live_bytes == GUIDED.view_pages * GUIDED.page_bytes
    run_block(view, 0)
    gone = [weakref.ref(tensor) for tensor in view._held.tensors]
    view.release()
    view.release()
    gc.collect()
    assert ledger.live_bytes == memory.live_bytes == 0
    assert [ref() for ref in gone] == [None] * 4
    ledger.begin_close("world")
    ledger.close("world")
    assert ledger.is_consistent()


def test_a_view_needs_an_open_owner() -> None:
    with pytest.raises(OwnerClosed, match="nobody"):
        open_view(SMALL, "nobody", Ledger(), Memory())


def test_a_failed_allocation_leaves_nothing_behind() -> None:
    ledger = Ledger()
    ledger.open("world")
    with pytest.raises(MemoryError):
        open_view(SMALL, "world", ledger, FailingMemory(full=True))
    assert ledger.live.owners["world"].entries == {}
    assert ledger.is_consistent()


def test_views_share_no_memory() -> None:
    one, two = new_view(), new_view()
    seen = [(k.clone(), v.clone()) for k, v in run_block(one, 1)]
    run_block(two, 2)
    for (k, v), (now_k, now_v) in zip(seen, run_block(one_again(one), 1), strict=True):
        assert torch.equal(k, now_k)
        assert torch.equal(v, now_v)


def one_again(view: KVView) -> KVView:
    view.rollback()
    return view
