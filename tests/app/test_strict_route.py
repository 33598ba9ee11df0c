"""Bodies over HTTP: strict JSON of a bounded size."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.app.raw_socket import dial
from tests.app.rest_helpers import refused

Start = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize(
    ("content", "media_type", "status", "code"),
    [
        (b"{", "application/json", 400, "not_json"),
        (b"[]", "application/json", 400, "not_json"),
        (b"\xff", "application/json", 400, "not_json"),
        (b'{"prompt": "a", "flow_shift": NaN}', "application/json", 422, "invalid_request"),
        (b'{"prompt": "a", "prompt": "b"}', "application/json", 422, "invalid_request"),
        (b"[" * 50_000, "application/json", 400, "not_json"),
        (b'{"prompt": "a"}', "text/plain", 415, "wrong_media_type"),
        (b"", "application/json", 422, "invalid_request"),
    ],
)
async def test_a_body_that_is_not_strict_json_is_a_problem(
    server: Any, content: bytes, media_type: str, status: int, code: str
) -> None:
    answer = await server.client.http.post(
        "/v1/sessions", content=content, headers={"Content-Type": media_type}
    )
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_body_that_is_too_large_is_a_problem(start_server: Start) -> None:
    server = await start_server(start_max_bytes=2048)
    error = await refused(server.client.create(prompt="x" * 4000))
    assert (error.status, error.code) == (413, "message_too_large")


async def test_a_caller_that_leaves_in_the_middle_of_its_body_upsets_nobody(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await dial(server)
    head = [
        "POST /v1/sessions HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Content-Length: 99",
    ]
    writer.write("\r\n".join([*head, "", '{"prompt": ']).encode())
    await writer.drain()
    state = server.server.server_state
    await server.until(lambda: state.tasks)
    writer.close()
    await server.until(lambda: not state.tasks)
    assert not caplog.records
