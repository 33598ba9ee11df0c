"""The capacity vectors of the design, exactly, and what is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcache.capacity import CapacityPlan, plan, plan_from_geometry, required_bytes, scratch_pages
from kvcache.errors import CapacityError, GeometryRefused
from kvcache.geometry import Geometry

TINY = Geometry(
    layers=1,
    kv_heads=1,
    head_dim=1,
    dtype="float32",
    tokens_per_frame=1,
    sink_frames=3,
    window_frames=3,
    frames_per_block=3,
    cross_tokens=2,
)
LINGBOT = Geometry(
    layers=40,
    kv_heads=40,
    head_dim=128,
    dtype="bfloat16",
    tokens_per_frame=1560,
    sink_frames=9,
    window_frames=9,
    frames_per_block=3,
    cross_tokens=512,
    model_state_bytes=7_488_000,
)
GIB = 1024**3


def test_tiny_in_192_bytes_holds_two() -> None:
    assert plan(TINY, 192, 1, 2) == CapacityPlan(
        requested=2,
        effective=2,
        configured_budget=192,
        budget=192,
        page_bytes=8,
        managed_pages=17,
        scratch_pages=3,
        cross_bytes_per_session=16,
        required_bytes=192,
    )


def test_tiny_fits_once_into_128_bytes_and_not_into_127() -> None:
    assert plan(TINY, 128, 1, 1).effective == 1
    with pytest.raises(CapacityError, match="available=127, required=128"):
        plan(TINY, 127, 1, 1)


def test_a_small_fraction_still_grants_one_session() -> None:
    small = plan(TINY, 1280, 0.05, 2)
    assert (small.configured_budget, small.budget, small.effective) == (64, 128, 1)


def test_model_state_counts_for_each_session() -> None:
    assert plan(replace(TINY, model_state_bytes=16), 200, 1, 2).effective == 1


def test_two_branches_double_the_pages() -> None:
    guided = Geometry(
        layers=1,
        kv_heads=1,
        head_dim=64,
        dtype="float32",
        tokens_per_frame=128,
        sink_frames=2,
        window_frames=4,
        frames_per_block=4,
        branches=2,
        cross_tokens=64,
    )
    assert guided.page_bytes == guided.cross_bytes == 65_536
    result = plan(guided, 2_883_584, 1, 64)
    assert (result.effective, result.managed_pages, result.scratch_pages) == (2, 34, 8)
    assert result.cross_bytes_per_session == 65_536
    assert result.required_bytes == 44 * 65_536


def test_the_14b_model_in_100_gib() -> None:
    tenth = plan(LINGBOT, 100 * GIB, 0.1, 8)
    assert (tenth.budget, tenth.effective) == (33_653_670_400, 1)
    assert plan(LINGBOT, 100 * GIB, 0.6, 8).effective == 2
    assert round(required_bytes(LINGBOT, 3) / GIB, 2) == 74.98


def test_scratch_tokens_take_whole_pages() -> None:
    assert scratch_pages(replace(LINGBOT, max_scratch_tokens=1)) == 4
    assert scratch_pages(replace(LINGBOT, max_scratch_tokens=1560)) == 4
    assert scratch_pages(replace(LINGBOT, max_scratch_tokens=1561, branches=2)) == 10


def test_a_fraction_is_taken_exactly() -> None:
    assert plan(TINY, 1000, 0.29, 1).configured_budget == 290  # 0.29 * 1000 is 289.99999999999994 in floats


@given(st.integers(1, 2000), st.sampled_from([0.05, 0.3, 0.9, 1.0]), st.integers(1, 40))
def test_the_plan_is_the_largest_that_fits(available: int, fraction: float, requested: int) -> None:
    if required_bytes(TINY, 1) > available:
        with pytest.raises(CapacityError):
            plan(TINY, available, fraction, requested)
        return
    result = plan(TINY, available, fraction, requested)
    assert 1 <= result.effective <= requested
    assert result.required_bytes == required_bytes(TINY, result.effective) <= result.budget <= available
    assert result.effective == requested or required_bytes(TINY, result.effective + 1) > result.budget


def test_a_plan_from_json_is_json_with_the_documented_fields() -> None:
    answer = json.loads(plan_from_geometry(json.dumps(asdict(TINY)), 192, 1.0, 2))
    assert list(answer) == [
        "requested",
        "effective",
        "configured_budget",
        "budget",
        "page_bytes",
        "managed_pages",
        "scratch_pages",
        "cross_bytes_per_session",
        "required_bytes",
    ]
    assert answer["required_bytes"] == 192


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers: got 0, must be at least 1"),
        ({"layers": 1.5}, "layers: got 1.5, must be an integer"),
        ({"layers": True}, "layers: got True, must be an integer"),
        ({"sink_frames": -1}, "sink_frames: got -1, must be at least 0"),
        ({"window_frames": 2}, "window_frames: got 2, must hold one block of 3 frames"),
        ({"dtype": "int8"}, "dtype: got 'int8', must be one of float64, float32, bfloat16, float16"),
        ({"dtype": 4}, "dtype: got 4, must be one of float64, float32, bfloat16, float16"),
        ({"dtype": []}, "dtype: got .., must be one of float64, float32, bfloat16, float16"),
        ({"colour": 1}, "colour: unknown field; allowed are branches, cross_tokens"),
    ],
)
def test_a_bad_geometry_is_refused_by_the_field_s_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(GeometryRefused, match=message):
        plan_from_geometry(json.dumps(asdict(TINY) | change), 192, 1.0, 1)


def test_missing_fields_and_other_json_are_refused() -> None:
    with pytest.raises(GeometryRefused, match="kv_heads: missing; needed are kv_heads, head_dim, dtype"):
        plan_from_geometry('{"layers": 1}', 192, 1.0, 1)
    with pytest.raises(GeometryRefused, match="got list, must be a JSON object"):
        plan_from_geometry("[]", 192, 1.0, 1)
    with pytest.raises(GeometryRefused, match="not JSON"):
        plan_from_geometry(f'{{"layers": {"1" * 5000}}}', 100, 1, 1)
    with pytest.raises(GeometryRefused, match=r"layers: got a number beyond 64 bits, must be .* at most"):
        plan_from_geometry(json.dumps(asdict(TINY) | {"layers": 10**4000}), 100, 1, 1)
    with pytest.raises(GeometryRefused, match="not JSON"):
        plan_from_geometry("{", 192, 1.0, 1)


@pytest.mark.parametrize(("fraction", "requested"), [(0, 1), (1.1, 1), (float("nan"), 1), (1, 0)])
def test_a_bad_request_is_refused(fraction: float, requested: int) -> None:
    with pytest.raises(GeometryRefused, match=r"fraction|requested"):
        plan(TINY, 192, fraction, requested)
