"""A server without keys answers to names of this machine alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Origin

from app.client import ServerError, Stream
from app.hosts import check_host, is_loopback
from app.paths import socket_url
from app.refusals import HostRefused
from app.settings import Settings
from tests.app.running_server import Running

Start = Callable[..., Awaitable[Running]]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("a.localhost", True),
        ("0.0.0.0", False),
        ("box", False),
        ("notlocalhost", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    "host", [None, "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "world.example:80"]
)
def test_names_of_this_machine_and_those_that_are_allowed_are_answered(host: str | None) -> None:
    check_host(Settings(allowed_hosts=("world.example",)), host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "localhost.evil.example"]
)
def test_another_name_is_refused_and_the_setting_named(host: str) -> None:
    with pytest.raises(HostRefused, match="WORLDLINE_ALLOWED_HOSTS"):
        check_host(Settings(allowed_hosts=("world.example",)), host)
    check_host(Settings(allowed_hosts=("*",)), host)
    check_host(Settings(host="0.0.0.0"), host)


async def test_a_page_that_rebinds_its_name_reaches_neither_api_nor_socket(start_server: Start) -> None:
    server = await start_server()
    _, address, port = server.url.replace("//", "").split(":")
    page = f"http://evil.example:{port}"
    headers = {"Host": f"evil.example:{port}", "Origin": page}
    answer = await server.client.http.post("/v1/sessions", headers=headers, json={"prompt": "a meadow"})
    assert (answer.status_code, answer.json()["code"]) == (403, "host_refused")
    assert not (await server.client.call("GET", "/v1/sessions")).json()["sessions"]
    async with connect(
        socket_url(page), host=address, port=int(port), origin=Origin(page), proxy=None
    ) as socket:
        with pytest.raises(ServerError) as refused:
            await Stream(socket).receive()
    assert (refused.value.code, refused.value.close_code) == ("host_refused", 1008)


async def test_who_shows_a_key_may_use_any_name(start_server: Start) -> None:
    server = await start_server(api_keys=["right"])
    shown: dict[str, Any] = {"Host": "world.example", "Authorization": "Bearer right"}
    assert (await server.client.http.get("/v1/models", headers=shown)).status_code == 200
