import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.refusals import InvalidField, MessageTooLarge, NotJson
from app.strict_json import MAX_DEPTH, MAX_INTEGER, MAX_VALUES, parse, parse_object

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_json_can_carry_comes_back(value: object) -> None:
    assert parse(json.dumps(value)) == value


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_a_refusal(text: str) -> None:
    try:
        parse(text)
    except (NotJson, InvalidField) as refused:
        assert str(refused)


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ('{"a": {"b": [1, NaN]}}', "a.b[1]", "finite"),
        ('{"a": -Infinity}', "a", "finite"),
        ('{"a": 1e999}', "a", "finite"),
        ('{"a": 1, "a": 2}', "a", "repeated"),
        ('{"a": %s}' % ("9" * 40), "a", "64 bits"),
        ('{"a": "\\ud800"}', "a", "surrogate"),
        ('{"a": {"\\ud800": NaN}}', "a", "surrogate"),
        ('{"\\udfff": null}', "value", "surrogate"),
        ('{"%s": NaN}' % ("k" * 5000), "k" * 80, "finite"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "a.a", "deeper"),
    ],
)
def test_a_value_the_wire_cannot_carry_is_refused_by_name(text: str, field: str, says: str) -> None:
    with pytest.raises(InvalidField, match=says) as refused:
        parse(text)
    assert refused.value.field.startswith(field)


@pytest.mark.parametrize(
    "text", ["", "hello", "{", "[" * 50_000, '{"a" 1}', "9" * 5000, b"\xff\xfe{", b'{"a": "\xff"}']
)
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotJson, match="not JSON"):
        parse(text)


def test_a_message_must_be_an_object() -> None:
    with pytest.raises(NotJson, match="not a JSON object"):
        parse_object("[1]")


@pytest.mark.parametrize(
    "text", ["[" + "0," * MAX_VALUES + "0]", "[" * 100_000, b"[" + b"{}," * MAX_VALUES + b"0]"]
)
def test_too_many_values_are_refused_before_any_is_made(text: str | bytes) -> None:
    with pytest.raises(MessageTooLarge, match="at most 65536 values"):
        parse(text)


def test_as_many_values_as_are_allowed_are_taken() -> None:
    parsed = parse("[" + "0," * (MAX_VALUES - 2) + "0]")
    assert isinstance(parsed, list) and len(parsed) == MAX_VALUES - 1
