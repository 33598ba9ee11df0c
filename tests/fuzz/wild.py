"""Messages that a client may send: valid by their schema, wrong in one place, or wrong altogether."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from app.client import ACTIONS
from app.wire import MESSAGES

Json = Any
Strategy = st.SearchStrategy[Json]

NUMBERS: Strategy = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([2**31, 2**53, 2**63, -(2**63), 10**40, 1e308, 5e-324, -0.0, 0.5]),
    st.floats(),  # also NaN and the infinities, which JSON does not know
)
TEXTS = st.one_of(
    st.sampled_from(["", " ", "\0", "\ud800", "é", "../x", "w", "a" * 5000, "\r\n", "null", "-1"]),
    st.text(max_size=12),
)
LEAVES: Strategy = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
DEEP: Strategy = st.integers(2, 60).map(lambda depth: json.loads("[" * depth + "]" * depth))
WILD: Strategy = st.one_of(
    LEAVES,
    DEEP,
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=6,
    ),
)

KEYS = {"mode": "state", "transitions": [{"actions": ["w", "j"]}]}
CAMERAS: Strategy = st.sampled_from(
    [
        {"schema": ACTIONS, "data": KEYS},
        {"schema": ACTIONS, "data": {"mode": "state", "transitions": [{"actions": []}]}},
        {"schema": ACTIONS, "data": {"mode": "script", "frames": [["w"], [], ["l"]]}},
        {"schema": "se3", "data": {"linear_velocity": [0, 0, 1]}},
        {"mode": "velocity", "linear_velocity": [0.0, 0.0, 0.1], "angular_velocity": [0.0, 0.1, 0.0]},
        {"mode": "target", "translation": [0.0, 0.0, 1.0], "rotation": [0.0, 0.0, 0.0, 1.0]},
        {"mode": "trajectory", "poses": []},
    ]
)
PLAIN: Mapping[str, Json] = {"prompt": "a meadow", "extra_params": {"pace_to_media_time": False}}


def of_schema(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Strategy:
    """Values that the JSON schema of a message allows; of free-form objects, cameras."""
    if "$ref" in schema:
        return of_schema(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    if "anyOf" in schema:
        return st.one_of([of_schema(one, definitions) for one in schema["anyOf"]])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=min(12, schema.get("maxLength", 12)))
        case "integer":
            return st.integers(schema.get("minimum", -5), min(schema.get("maximum", 200), 10**6))
        case "number":
            return st.floats(schema.get("minimum", 0), schema.get("maximum", 100))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(of_schema(schema["items"], definitions), max_size=3)
        case "object" if "properties" in schema:
            return _of_object(schema, definitions)
        case "object":
            return CAMERAS
    return WILD


def _of_object(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Strategy:
    needed = set(schema.get("required", ()))
    fields = {name: of_schema(inner, definitions) for name, inner in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: inner for name, inner in fields.items() if name in needed},
        optional={name: inner for name, inner in fields.items() if name not in needed},
    )


def of_kind(kind: str) -> Strategy:
    """A message of this type, as its schema wants it."""
    schema = MESSAGES[kind].model_json_schema()
    return of_schema(schema, schema.get("$defs", {}))


@st.composite
def spoiled(draw: st.DrawFn, whole: Json) -> Json:
    """A JSON value, changed in one place: replaced, dropped, or with something added beside it."""
    whole = copy.deepcopy(whole)
    at, key = whole, None
    while isinstance(at, dict | list) and at and (key is None or draw(st.booleans())):
        parent, key = at, draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        at = parent[key]
    if key is None:
        return draw(WILD)
    match draw(st.sampled_from(["replace", "replace", "drop", "add"])):
        case "drop":
            del parent[key]
        case "add" if isinstance(parent, dict):
            parent[draw(TEXTS)] = draw(WILD)
        case "add":
            parent.append(draw(WILD))
        case _:
            parent[key] = draw(WILD)
    return whole


@st.composite
def text_of(draw: st.DrawFn, message: Json) -> str:
    """The message as JSON; now and then cut, or with something in it that is none."""
    text = json.dumps(message)
    match draw(st.integers(0, 19)):
        case 0:
            return text[: draw(st.integers(0, len(text)))]
        case 1:
            at = draw(st.integers(0, len(text)))
            return text[:at] + draw(st.text(max_size=3)) + text[at:]
        case 2:
            return text.replace("{", '{"type": "session.ping", ', 1)
    return text


START = of_kind("session.start").map(lambda message: {**message, **PLAIN}) | st.fixed_dictionaries(
    {"type": st.just("session.start"), "mode": st.sampled_from(["continuous", "stepped"])},
    optional={
        "seed": st.integers(0, 9),
        "format": st.sampled_from(["m4s", "annexb", "jpeg"]),
        "num_frames": st.sampled_from([9, 21, 45]),
        "session_id": st.sampled_from(["one", "two"]),
        "image_reference": st.just({"image_url": "http://127.0.0.1/a.png"}),
    },
).map(lambda message: {**PLAIN, **message})
OPENING: st.SearchStrategy[str] = st.one_of(
    START,
    START,
    START.flatmap(spoiled),
    st.sampled_from(sorted(MESSAGES)).flatmap(of_kind),
    WILD,
).flatmap(text_of)
INTERACTION = st.builds(
    lambda body: {"type": "session.interaction", "interaction": body},
    st.fixed_dictionaries(
        {
            "event": st.fixed_dictionaries(
                {},
                optional={
                    "prompt": st.sampled_from(["fog", "rain"]),
                    "multi_modal_data": CAMERAS.map(lambda camera: {"camera": camera}),
                },
            )
        },
        optional={"event_id": st.sampled_from(["a", "b", "c"]), "transition_chunks": st.integers(0, 3)},
    ),
)
MESSAGE: st.SearchStrategy[str] = st.one_of(
    INTERACTION,
    INTERACTION.flatmap(spoiled),
    st.sampled_from(sorted(set(MESSAGES) - {"session.stop", "session.close"})).flatmap(of_kind),
    st.sampled_from(sorted(MESSAGES)).flatmap(of_kind).flatmap(spoiled),
    WILD,
).flatmap(text_of)
