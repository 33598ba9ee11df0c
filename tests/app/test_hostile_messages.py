"""Messages that no honest client sends: without end, without bottom, or not quite JSON."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.client import ServerError
from app.strict_json import MAX_VALUES
from tests.app.raw_socket import close_code, cut, frame, shaken

Start = Callable[..., Awaitable[Any]]
PROMPT = {"prompt": "a meadow"}


async def test_a_frame_that_says_it_is_endless_is_refused_at_its_head(start_server: Start) -> None:
    server = await start_server()
    reader, writer = await shaken(server)
    writer.write(frame(0x1, b"", length=2**62))
    assert close_code(await cut(reader)) == 1009
    writer.close()


async def test_a_message_in_endless_empty_pieces_is_refused(start_server: Start) -> None:
    server = await start_server()
    reader, writer = await shaken(server)
    writer.write(frame(0x1, b"", last=False) + frame(0x0, b"", last=False) * 5000)
    assert close_code(await cut(reader)) == 1009
    writer.close()


SCRIPT = '{"extra_params": {"camera_action_script": [%s[]]}, "prompt": "a", "type": "session.start"}'


async def test_millions_of_values_are_refused_before_they_are_made(start_server: Start) -> None:
    server = await start_server()
    many = SCRIPT % ("[]," * 2_000_000)
    async with server.client.socket() as stream:
        await stream.socket.send(many)
        with pytest.raises(ServerError, match="65536 values") as refused:
            await stream.receive()
        assert refused.value.close_code == 1009
    answer = await server.client.http.post(
        "/v1/sessions", content=many, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "message_too_large")


async def test_a_stream_goes_on_after_an_interaction_of_too_many_values(server: Any) -> None:
    async with server.client.stream(**PROMPT) as stream:
        await stream.socket.send('{"type": "session.interaction", "x": [' + "0," * MAX_VALUES)
        assert (await stream.message("session.warning"))["code"] == "message_too_large"
        assert (await stream.chunk()).data


BAD_BODIES = [
    b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
    b'{"prompt": "a", "seed": ' + b"9" * 30 + b"}",
    b'{"prompt": "a", "seed": 1e400}',
    b'{"prompt": "a", "seed": NaN}',
    b'{"prompt": "a", "extra_params": ' + b"[" * 40 + b"]" * 40 + b"}",
    b'{"prompt": ' + b"[" * 50_000,
    b'{"prompt": "\xff\xfe"}',
    b'{"prompt": "\\ud800"}',
    b'{"prompt": "a", "\\ud800": 1}',
    b'{"prompt": "a", "prompt": "b"}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_what_json_should_not_hold_is_refused_on_both_ways_in(start_server: Start, body: bytes) -> None:
    server = await start_server(last_word_timeout_s=0.1)
    answer = await server.client.http.post(
        "/v1/sessions", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["code"] and answer.json()["detail"]
    reader, writer = await shaken(server)
    writer.write(frame(0x1, body.replace(b"{", b'{"type": "session.start", ', 1)))
    assert close_code(await cut(reader)) in (1007, 1008)
    writer.close()
    assert not server.edge.manager.awake_count
