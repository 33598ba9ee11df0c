"""Any message to the socket, valid, spoiled or wild: it is taken or refused by its name."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from app.errors import TABLE
from app.paths import socket_url
from tests.fuzz.quiet_server import quiet_server
from tests.fuzz.rounds import CASES, NAMING, trying
from tests.fuzz.wild import MESSAGE, OPENING

OURS = {fault.code for fault in TABLE.values() if fault.status == 500} | {"internal_error"}
CLOSES = {1000, 1003, 1007, 1008, 1009, 1013, 4404, 4408, 4409, 4410}
SENT = CASES * 4 // 5
A_ROUND = 200


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with quiet_server(tmp_path_factory.mktemp("fuzzed")) as address:
        yield address


def check(message: dict[str, Any]) -> None:
    """Whatever is refused has a name that is not our own failure, and says which field."""
    if "code" not in message:
        return
    code, told = message["code"], json.dumps(message)
    assert code and code not in OURS, told
    assert message["message"] and "Traceback" not in message["message"], told
    if code in NAMING:
        assert message.get("field"), told


def play(url: str, opening: str, messages: list[str]) -> int:
    """One socket's life. Returns how many messages were sent."""
    sent, terminal = 0, 0
    with connect(socket_url(url), compression=None, max_size=None, proxy=None) as socket:
        with suppress(ConnectionClosed):
            for text in [opening, *messages, '{"type": "session.close"}']:
                socket.send(text.encode("utf-8", "replace").decode())
                sent += 1
        try:
            while True:
                received = socket.recv(timeout=30)
                if isinstance(received, str):
                    message = json.loads(received)
                    terminal += message["type"] in ("session.done", "error")
                    check(message)
        except ConnectionClosed as closed:
            code = 1006 if closed.rcvd is None else closed.rcvd.code
    assert code in CLOSES, (code, opening, messages)
    assert terminal == 1, (terminal, code, opening, messages)
    return sent


def survive(url: str, examples: int, number: int | None) -> int:
    """So many sockets' lives. Returns how many messages were sent; `number` None: the same ones each time."""
    sent = 0

    @trying(examples, number)
    @given(OPENING, st.lists(MESSAGE, max_size=20))
    def lives(opening: str, messages: list[str]) -> None:
        nonlocal sent
        sent += play(url, opening, messages)

    lives()
    return sent


def test_any_message_is_taken_or_refused_by_name(url: str) -> None:
    assert survive(url, 40, None) > 40
    assert httpx.get(url + "/readyz", trust_env=False).status_code == 200


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_very_many_messages_are_taken_or_refused_by_name(url: str) -> None:
    first, sent, rounds = random.randrange(2**32), 0, 0
    while sent < SENT:
        sent += survive(url, A_ROUND, first + rounds)
        rounds += 1
    print(f"{sent} messages, {rounds} rounds from seed {first}")  # noqa: T201
