import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import refusals
from app.errors import INTERNAL, TABLE, close_code, fault_of, field_of, message_of
from engine import api
from sessions import errors

DESIGNED_CLOSE_CODES = {1001, 1003, 1007, 1008, 1009, 1011, 1013, 4404, 4408, 4409, 4410}


def tree(base: type[Exception]) -> Iterator[type[Exception]]:
    yield base
    for kind in base.__subclasses__():
        yield from tree(kind)


EXCEPTIONS = [
    kind
    for base in (refusals.Refusal, errors.SessionError, api.EngineError)
    for kind in tree(base)
    if kind.__module__ in ("app.refusals", "sessions.errors", "engine.api.errors")
]


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_every_exception_has_a_row(kind: type[Exception]) -> None:
    assert kind in TABLE


@pytest.mark.parametrize("kind", [kind for kind in EXCEPTIONS if issubclass(kind, errors.SessionError)])
def test_a_row_agrees_with_the_session_layer(kind: type[errors.SessionError]) -> None:
    assert (TABLE[kind].code, TABLE[kind].retryable) == (kind.code, kind.retryable)


def test_a_code_has_one_close_code_and_one_answer_to_trying_again() -> None:
    seen = defaultdict(set)
    for fault in TABLE.values():
        seen[fault.code].add((fault.close, fault.retryable))
    assert all(len(rows) == 1 for rows in seen.values()), seen


def test_close_codes_and_statuses_are_those_of_the_protocol() -> None:
    assert {fault.close for fault in TABLE.values()} <= DESIGNED_CLOSE_CODES
    assert all(400 <= fault.status < 600 for fault in TABLE.values())


def test_a_table_row_belongs_to_an_exception_of_a_tree() -> None:
    assert set(TABLE) == set(EXCEPTIONS)


@pytest.mark.parametrize("module", [refusals, errors, api.errors])
def test_a_tree_is_drawn_whole_in_its_docstring(module: object) -> None:
    text = Path(str(module.__file__)).read_text()  # type: ignore[attr-defined]
    drawn = set(re.findall(r"\+- (\w+)", text))
    assert {kind.__name__ for kind in EXCEPTIONS if kind.__module__ == module.__name__} - drawn <= {  # type: ignore[attr-defined]
        "Refusal",
        "SessionError",
        "EngineError",
    }


def test_an_unknown_error_tells_nothing_of_its_insides() -> None:
    error = KeyError("/secret/path")
    assert fault_of(error) == INTERNAL
    assert "secret" not in message_of(error)
    assert field_of(error) is None


def test_a_subclass_without_a_row_takes_its_base_s() -> None:
    class Odd(api.ChunkFailed):
        pass

    assert fault_of(Odd("x")) == TABLE[api.ChunkFailed]


def test_a_code_leads_to_its_close_code() -> None:
    assert close_code("unknown_session") == 4404
    assert close_code("no such code") == 1011
