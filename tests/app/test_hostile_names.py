"""Names and paths that no honest client sends: none leads anywhere."""

from typing import Any

import pytest

from app.client import ServerError
from tests.app.raw_socket import cut, dial

PROMPT = {"prompt": "a meadow"}

NAMES = [
    "../x",
    "..",
    ".",
    "a/b",
    "a\\b",
    "",
    " ",
    "a\0",
    "a\n",
    "-x",
    "é",
    "x" * 65,
    "%2e%2e",
    "a;b",
    "~",
    "$HOME",
]


@pytest.mark.parametrize("name", NAMES)
async def test_an_id_that_is_no_plain_name_is_refused(server: Any, name: str) -> None:
    with pytest.raises(ServerError) as refused:
        await server.client.create(**PROMPT, session_id=name)
    assert (refused.value.status, refused.value.field) == (422, "session_id")
    async with server.client.socket() as stream:
        with pytest.raises(ServerError) as refused:
            await stream.start(**PROMPT, session_id=name)
    assert (refused.value.close_code, refused.value.field) == (1008, "session_id")


@pytest.mark.parametrize("name", ["../harbour", "/etc/passwd", "..", "harbour\0", "x" * 129, "", "HARBOUR"])
async def test_a_scene_that_is_not_listed_is_refused(server: Any, name: str) -> None:
    with pytest.raises(ServerError) as refused:
        await server.client.create(**PROMPT, scene=name)
    assert (refused.value.status, refused.value.field) == (422, "scene")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions/..%2f..%2fetc%2fpasswd",
        "/v1/sessions/%2e%2e",
        "/v1/sessions/../../etc/passwd",
        "/v1/sessions/a%00b",
        "/v1/sessions/" + "x" * 5000,
        "/v1/sessions/%ff%fe",
        "/v1/sessions/..%5c..%5cx",
        "/v1/scenes/..%2f..%2fpyproject.toml/image",
        "/v1/scenes/%2e%2e/image",
        "/static/..%2f..%2fpyproject.toml",
        "/static/%00",
        "/static/" + "x" * 5000,
        "//etc/passwd",
        "/%",
    ],
)
async def test_a_path_with_tricks_finds_nothing(server: Any, path: str) -> None:
    reader, writer = await dial(server)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    status = int((await cut(reader)).split()[1])
    writer.close()
    assert status in (400, 404, 422)
