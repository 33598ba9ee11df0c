"""The OpenAPI text suffices for a stranger: everything that it names, it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import build_reducers, build_stores
from app.main import create_app
from app.settings import Settings
from app.wire import MESSAGES
from engine.pattern.engine import PatternEngine

Json = dict[str, Any]
REFERENCE = re.compile(r"#/components/schemas/(\w+)")


@pytest.fixture
def described(tmp_path: Path) -> Json:
    settings = Settings(data=tmp_path)
    return create_app(settings, PatternEngine(), build_stores(settings), build_reducers()).openapi()


def bare_properties(schema: Json, where: str) -> Iterator[str]:
    """Properties without a description; one that only refers to a schema has that schema's."""
    for name, inner in schema.get("properties", {}).items():
        if not inner.get("description") and "$ref" not in inner:
            yield f"{where}.{name}"
        yield from bare_properties(inner, f"{where}.{name}")
    for inner in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from bare_properties(inner, where)
    if isinstance(schema.get("items"), dict):
        yield from bare_properties(schema["items"], f"{where}[]")


def operations(described: Json) -> Iterator[tuple[str, Json]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_schema_and_property_is_described(described: Json) -> None:
    schemas = described["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
    assert [bare for name, schema in schemas.items() for bare in bare_properties(schema, name)] == []


def test_every_route_parameter_and_answer_is_described(described: Json) -> None:
    bare = []
    for name, operation in operations(described):
        bare += [f"{name} {part}" for part in ("summary", "description") if not operation.get(part)]
        for parameter in operation.get("parameters", ()):
            if not parameter.get("description"):
                bare.append(f"{name} {parameter['name']}")
        for status, answer in operation["responses"].items():
            if answer["description"] in ("", "Successful Response", "Validation Error"):
                bare.append(f"{name} {status}")
            headers = answer.get("headers", {}).items()
            bare += [f"{name} {status} {header}" for header, one in headers if not one.get("description")]
    assert bare == []


def unbounded(schema: Json, where: str) -> Iterator[str]:
    """Integers with no largest or smallest value, which a column of a table could fail to hold."""
    below, above = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
    bounded = "const" in schema or all(any(end in schema for end in ends) for ends in (below, above))
    if schema.get("type") == "integer" and not bounded:
        yield where
    for name, inner in {**schema.get("properties", {}), **schema.get("$defs", {})}.items():
        yield from unbounded(inner, f"{where}.{name}")
    for inner in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from unbounded(inner, where)
    if isinstance(schema.get("items"), dict):
        yield from unbounded(schema["items"], f"{where}[]")


def test_every_integer_that_a_client_may_send_is_bounded(described: Json) -> None:
    free = [
        bare
        for name, operation in operations(described)
        for parameter in operation.get("parameters", ())
        for bare in unbounded(parameter["schema"], f"{name} {parameter['name']}")
    ]
    for name in sent_schemas(described):
        free += unbounded(described["components"]["schemas"][name], name)
    for kind, model in MESSAGES.items():
        free += unbounded(model.model_json_schema(), kind)
    assert free == []


def sent_schemas(described: Json) -> set[str]:
    """The names of all schemas of request bodies, with those that they refer to."""
    bodies = [
        operation["requestBody"] for _, operation in operations(described) if "requestBody" in operation
    ]
    found: set[str] = set()
    new = set(REFERENCE.findall(json.dumps(bodies)))
    while new:
        found |= new
        new = {
            name
            for one in new
            for name in REFERENCE.findall(json.dumps(described["components"]["schemas"][one]))
        } - found
    return found


def test_the_text_tells_of_every_message_that_a_client_can_send(described: Json) -> None:
    text = described["info"]["description"]
    assert [kind for kind in MESSAGES if f"`{kind}" not in text and f'"{kind}"' not in text] == []


@pytest.mark.parametrize(
    "kind",
    ["video.start", "video.chunk_metadata", "session.resumed", "session.rewound", "session.done", "error"],
)
def test_the_text_tells_of_what_the_server_sends(described: Json, kind: str) -> None:
    assert f"`{kind}" in described["info"]["description"]


def test_every_field_of_every_message_is_described() -> None:
    bare = []
    for kind, model in MESSAGES.items():
        schema = model.model_json_schema()
        for name, inner in schema["properties"].items():
            if name != "type" and not inner.get("description") and "$ref" not in inner:
                bare.append(f"{kind} {name}")
    assert bare == []


async def test_the_description_of_the_api_says_what_each_route_does_and_how_it_fails(server: Any) -> None:
    described = (await server.client.call("GET", "/openapi.json")).json()
    routes = {
        (method, path): operation
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    assert {path for _, path in routes} == {
        "/v1/models",
        "/v1/scenes/{name}/image",
        "/v1/sessions",
        "/v1/sessions/{session_id}",
        "/v1/sessions/{session_id}/events",
        "/v1/sessions/{session_id}/chunks",
        "/v1/sessions/{session_id}/cancel",
        "/v1/sessions/{session_id}/reset",
        "/v1/sessions/{session_id}/rewind",
        "/v1/sessions/{session_id}/fork",
        "/v1/sessions/{session_id}/journal",
        "/v1/sessions/{session_id}/ledger",
        "/v1/sessions/{session_id}/video.mp4",
        "/health",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    for (method, path), operation in routes.items():
        assert operation["summary"] and operation["description"], path
        if path.startswith("/v1/sessions"):
            failures = {status for status in operation["responses"] if status >= "400"}
            assert "401" in failures, (method, path)
            for status in failures:
                assert "application/problem+json" in operation["responses"][status]["content"], (path, status)
    created = described["components"]["schemas"]["SessionRequest"]["properties"]
    assert all("description" in field or "$ref" in str(field) for field in created.values())
    assert described["components"]["schemas"]["Problem"]["properties"]["code"]
