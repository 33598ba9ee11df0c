from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.errors import InvalidEvent
from sessions.frozen import DEEPEST, FrozenDict, canonical, digest, freeze

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def listed(value: object) -> object:
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, tuple) else value


@given(JSON)
def test_frozen_data_is_equal_hashable_and_survives_pickling(value: object) -> None:
    frozen = freeze(value)
    assert listed(frozen) == value
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert hash(pickle.loads(pickle.dumps(frozen))) == hash(frozen)


@given(JSON)
def test_freezing_what_is_frozen_changes_nothing(value: object) -> None:
    assert freeze(freeze(value)) == freeze(value)


def test_later_changes_by_the_caller_are_invisible() -> None:
    data = {"transitions": [{"actions": ["w"]}]}
    frozen = freeze(data)
    data["transitions"][0]["actions"].append("d")
    assert frozen == {"transitions": ({"actions": ("w",)},)}


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.update(a=2),
        lambda d: d.pop("a"),
        lambda d: d.clear(),
        lambda d: d.setdefault("b", 2),
        lambda d: d.__ior__({"b": 2}),
        lambda d: d.popitem(),
    ],
)
def test_a_frozen_dict_refuses_every_change(change: object) -> None:
    frozen = FrozenDict(a=1)
    with pytest.raises(TypeError):
        change(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"a": [0.5, float("nan")]}, "data.a[1]"),
        ({"a": float("inf")}, "data.a"),
        ([2**53], "data[0]"),
        ({"a": -(2**70)}, "data.a"),
        ({"a": {1: 2}}, "data.a"),
        ({"a": "\ud800"}, "data.a"),
        ({"\ud800": 1}, "data"),
        ({"a": b"bytes"}, "data.a"),
        ({"a": {1, 2}}, "data.a"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(data: object, field: str) -> None:
    with pytest.raises(InvalidEvent) as refused:
        freeze(data)
    assert refused.value.field == field
    assert str(refused.value).startswith(field)


def test_deep_nesting_is_refused_and_the_deepest_allowed_is_taken() -> None:
    def nested(levels: int) -> object:
        value: object = 1
        for _ in range(levels):
            value = [value]
        return value

    freeze(nested(DEEPEST))
    with pytest.raises(InvalidEvent, match="nested deeper than 32"):
        freeze(nested(DEEPEST + 1))
    with pytest.raises(InvalidEvent, match="nested deeper than 32"):
        freeze(nested(100_000))


def test_the_digest_does_not_depend_on_the_order_of_keys_but_on_every_value() -> None:
    assert digest(freeze({"a": 1, "b": [2]})) == digest(freeze({"b": [2], "a": 1}))
    assert digest(freeze({"a": 1})) != digest(freeze({"a": True}))
    assert canonical(freeze({"b": (1, 2), "a": "ä"})) == '{"a":"ä","b":[1,2]}'
