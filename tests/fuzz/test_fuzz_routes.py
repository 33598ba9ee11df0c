"""Any call of any route, made from the description of the API: the answer is one that it describes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import requests
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi import checks

from tests.fuzz.quiet_server import quiet_server
from tests.fuzz.rounds import CASES, NAMING, trying

CALLS = CASES // 5
A_ROUND = 500
KEPT = 6
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@dataclass
class Caller:
    """Calls the server, and keeps a few sessions for calls that need one."""

    url: str
    http: requests.Session
    sessions: list[str] = field(default_factory=list)
    calls: int = 0

    def call(self, case: Case) -> None:
        """Call, and check the answer."""
        self.calls += 1
        answer = case.call(base_url=self.url, session=self.http, timeout=60)
        told = (case.method, case.formatted_path, answer.status_code, answer.content[:500])
        assert answer.status_code < 500 or answer.status_code in (501, 503, 504), told
        own_form = case.operation.path == "/readyz"  # which says why it is not ready
        if answer.status_code >= 400 and not own_form:
            problem = answer.json()
            assert problem["code"] and problem["detail"] and "Traceback" not in problem["detail"], told
            assert problem["code"] not in NAMING or problem.get("field"), told
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code == 201:
            self.keep(answer.json()["session_id"])

    def keep(self, session_id: str) -> None:
        """A session more; the oldest goes."""
        self.sessions.append(session_id)
        while len(self.sessions) > KEPT:
            self.http.delete(f"{self.url}/v1/sessions/{self.sessions.pop(0)}", timeout=60)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with quiet_server(tmp_path_factory.mktemp("fuzzed")) as url, requests.Session() as http:
        http.trust_env = False
        made = Caller(url, http)
        for mode in ("stepped", "continuous") * (KEPT // 2):
            body = {"prompt": "a meadow", "mode": mode}
            made.keep(http.post(f"{url}/v1/sessions", json=body, timeout=60).json()["session_id"])
        yield made


def strategy(url: str) -> st.SearchStrategy[Case]:
    """Calls of all operations, each as likely as any other: as described, or wrong somewhere."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    calls = []
    for found in schema.get_all_operations():
        operation = found.ok()
        can_be_wrong = operation.path.startswith("/v1")  # the others take nothing
        modes = list(GenerationMode) if can_be_wrong else [GenerationMode.POSITIVE]
        calls.append(st.one_of([operation.as_strategy(mode) for mode in modes]))
    return st.one_of(calls)


def survive(caller: Caller, examples: int, number: int | None) -> None:
    """So many calls; `number` None: the same ones each time."""

    @trying(examples, number)
    @given(strategy(caller.url), st.booleans(), st.integers(0, KEPT - 1))
    def lives(case: Case, of_a_session: bool, which: int) -> None:
        if of_a_session and "session_id" in case.path_parameters:
            case.path_parameters["session_id"] = caller.sessions[which]
        caller.call(case)

    lives()


def test_any_call_is_answered_as_described(caller: Caller) -> None:
    survive(caller, 120, None)
    assert caller.calls >= 120


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_very_many_calls_are_answered_as_described(caller: Caller) -> None:
    first, rounds = random.randrange(2**32), 0
    while caller.calls < CALLS:
        survive(caller, A_ROUND, first + rounds)
        rounds += 1
    print(f"{caller.calls} calls, {rounds} rounds from seed {first}")  # noqa: T201
