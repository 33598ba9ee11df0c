"""The slot rule: where frames lie, and what a block sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcache.errors import GeometryRefused
from kvcache.slots import SlotRule


@st.composite
def rules(draw: st.DrawFn) -> SlotRule:
    block = draw(st.integers(1, 5))
    sink = draw(st.integers(0, 12))
    return SlotRule(sink, sink + draw(st.integers(block, 15)), block)


def test_the_lingbot_view_fills_up_and_then_turns_in_its_ring() -> None:
    rule = SlotRule(sink=9, view=18, frames_per_block=3)
    blocks = [rule.block(first) for first in range(0, 36, 3)]
    assert [block.runs[0].slot for block in blocks] == [0, 3, 6, 9, 12, 15, 9, 12, 15, 9, 12, 15]
    assert [block.valid for block in blocks] == [3, 6, 9, 12, 15, 18, 18, 18, 18, 18, 18, 18]


@given(rules(), st.integers(0, 60))
def test_a_block_sees_sink_and_ring_and_itself(rule: SlotRule, number: int) -> None:
    first = number * rule.frames_per_block
    last = first + rule.frames_per_block
    holds = {rule.slot(frame): frame for frame in range(last)}  # later frames overwrite earlier ones
    seen = {holds[slot] for slot in range(rule.block(first).valid)}
    assert seen == set(range(min(rule.sink, last))) | set(range(max(0, last - rule.ring), last))


@given(rules(), st.integers(0, 60))
def test_a_block_overwrites_only_frames_that_leave_the_view_with_it(rule: SlotRule, number: int) -> None:
    first = number * rule.frames_per_block
    for offset in range(rule.frames_per_block):
        slot = rule.slot(first + offset)
        if slot < min(first, rule.view):
            overwritten = max(frame for frame in range(first) if rule.slot(frame) == slot)
            assert overwritten < first + rule.frames_per_block - rule.ring


@given(rules(), st.integers(0, 60))
def test_runs_cover_a_block_once_and_in_order(rule: SlotRule, number: int) -> None:
    first = number * rule.frames_per_block
    runs = rule.block(first).runs
    slots = [run.slot + step for run in runs for step in range(run.length)]
    assert slots == [rule.slot(first + offset) for offset in range(rule.frames_per_block)]
    assert [run.offset for run in runs] == [sum(r.length for r in runs[:i]) for i in range(len(runs))]


@given(rules())
def test_an_aligned_rule_never_wraps_inside_a_block(rule: SlotRule) -> None:
    runs = [len(rule.block(n * rule.frames_per_block).runs) for n in range(40)]
    assert rule.aligned == (max(runs) == 1) or rule.ring == rule.frames_per_block


@given(rules(), st.integers(0, 60))
def test_kept_slots_and_the_next_block_make_up_what_it_sees(rule: SlotRule, number: int) -> None:
    first = number * rule.frames_per_block
    block = rule.block(first)
    own = {run.slot + step for run in block.runs for step in range(run.length)}
    assert sorted(own | set(rule.kept(first))) == list(range(block.valid))
    assert not own & set(rule.kept(first))


@pytest.mark.parametrize(
    ("sizes", "field"),
    [((3, 5, 3), "view_frames"), ((-1, 5, 3), "sink_frames"), ((0, 3, 0), "frames_per_block")],
)
def test_a_view_too_small_for_a_block_is_refused_by_name(sizes: tuple[int, int, int], field: str) -> None:
    with pytest.raises(GeometryRefused) as refusal:
        SlotRule(*sizes)
    assert refusal.value.field == field
    assert "got" in str(refusal.value)
