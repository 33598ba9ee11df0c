"""What is refused before `video.start`, what ends a stream, and what does not."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from socket_helpers import MEADOW, Start, refusal
from websockets.asyncio.client import connect

from app.client import ServerError, Stream
from app.paths import socket_url
from engine.api import ChunkCommitted, ChunkFailed, ChunkReady, Tick
from engine.pattern.engine import PatternEngine

# Refusals before `video.start`


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"prompt": None}, "prompt", "required"),
        ({"prompt": "  "}, "prompt", "must say something"),
        ({"prompt": "x" * 4097}, "prompt", "4097"),
        ({"width": 100}, "width", "multiple of 16; got 100"),
        ({"height": 0}, "height", "multiple of 16; got 0"),
        ({"width": 16000, "height": 16000}, "width", "at most"),
        ({"num_frames": 10}, "num_frames", r"9 \+ 12 n, e.g. 9; got 10"),
        ({"num_frames": 80}, "num_frames", "81"),
        ({"num_inference_steps": 50}, "num_inference_steps", "must be 4"),
        ({"negative_prompt": "blurry"}, "negative_prompt", "must be empty"),
        ({"scene": "../etc/passwd"}, "scene", "must be one of harbour"),
        (
            {"image_reference": {"image_url": "https://example.org/a.png"}},
            "image_reference.image_url",
            "data URL",
        ),
        ({"scene": "harbour", "image_reference": {"image_url": "data:"}}, "scene", "not both"),
        ({"unknown": 1}, "unknown", "unknown field"),
        ({"flow_shift": 0}, "flow_shift", "greater than 0"),
        (
            {"extra_params": {"camera_action_script": [[["w"]]]}},
            "extra_params.camera_action_script[0]",
            "3 lists",
        ),
        ({"session_id": "a/b"}, "session_id", "pattern"),
        ({"token": "t"}, "session_id", "required with `token`"),
    ],
)
async def test_a_bad_start_is_refused_by_name_before_video_start(
    server: Any, fields: dict[str, Any], field: str, says: str
) -> None:
    async with server.client.socket() as stream:
        refused = await refusal(stream, {"type": "session.start", **MEADOW, **fields})
    assert (refused.code, refused.field, refused.close_code) == ("invalid_request", field, 1008)
    import re

    assert re.search(says, refused.message)
    assert server.edge.manager.awake_count == 0


@pytest.mark.parametrize(
    ("message", "code", "close_code"),
    [
        ("hello", "not_json", 1007),
        ("[1, 2]", "not_json", 1007),
        (b"\0\1", "binary_frame", 1003),
        ({"type": "session.ping"}, "invalid_request", 1008),
        ({"type": "session.begin"}, "invalid_request", 1008),
        ('{"type": "session.start", "prompt": "a", "prompt": "b"}', "invalid_request", 1008),
        ('{"type": "session.start", "prompt": "a", "flow_shift": NaN}', "invalid_request", 1008),
        ({"type": "session.start", "prompt": "a", "model": "other"}, "unknown_model", 1008),
        ({"type": "session.start", "session_id": "nobody", "token": "t"}, "unknown_session", 4404),
    ],
)
async def test_what_is_no_start_gets_an_error_and_its_close_code(
    server: Any, message: Any, code: str, close_code: int
) -> None:
    async with server.client.socket() as stream:
        refused = await refusal(stream, message)
    assert (refused.code, refused.close_code) == (code, close_code)


async def test_a_bad_camera_script_is_refused_before_video_start(server: Any) -> None:
    async with server.client.socket() as stream:
        script = {"camera_action_script": [[["w"], ["jump"], []]]}
        refused = await refusal(stream, {"type": "session.start", **MEADOW, "extra_params": script})
    assert (refused.code, refused.close_code) == ("invalid_control", 1008)
    assert "jump" in refused.message


async def test_a_start_that_is_too_large_is_refused(start_server: Start) -> None:
    server = await start_server(start_max_bytes=2048)
    async with server.client.socket() as stream:
        refused = await refusal(stream, {"type": "session.start", "prompt": "x" * 3000})
    assert (refused.code, refused.close_code) == ("message_too_large", 1009)
    async with server.client.socket() as stream:
        await stream.socket.send("x" * 100_000)
        with pytest.raises(ServerError) as closed:
            await stream.receive()
        assert closed.value.close_code == 1009


async def test_a_client_that_does_not_start_in_time_is_let_go(start_server: Start) -> None:
    server = await start_server(start_timeout_s=0.05)
    async with server.client.socket() as stream:
        with pytest.raises(ServerError) as late:
            await stream.receive()
    assert (late.value.code, late.value.close_code) == ("start_timeout", 4408)


async def test_without_room_a_client_is_asked_to_come_back(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    async with server.client.stream(**MEADOW), server.client.socket() as second:
        refused = await refusal(second, {"type": "session.start", **MEADOW, "wait": False})
    assert (refused.code, refused.close_code, refused.retryable) == ("capacity_exceeded", 1013, True)


async def test_an_id_in_use_is_refused(server: Any) -> None:
    async with server.client.stream(**MEADOW, session_id="mine"), server.client.socket() as second:
        refused = await refusal(second, {"type": "session.start", **MEADOW, "session_id": "mine"})
    assert (refused.code, refused.field) == ("session_exists", "session_id")


async def test_a_page_of_another_site_may_not_connect(start_server: Start) -> None:
    server = await start_server(allowed_origins=("https://friend.example",))
    url = socket_url(server.url)
    for origin, welcome in [
        ("https://evil.example", False),
        ("null", False),  # what a page in a sandbox sends
        ("http://[", False),
        (server.url + "@evil.example", False),
        ("https://friend.example", True),
        (server.url, True),
    ]:
        async with connect(url, additional_headers={"Origin": origin}, proxy=None) as socket:
            stream = Stream(socket)
            if welcome:
                await stream.start(**MEADOW)
            else:
                with pytest.raises(ServerError) as refused:
                    await stream.receive()
                assert (refused.value.code, refused.value.close_code) == ("origin_refused", 1008)


async def test_a_key_is_required_where_keys_are_set(start_server: Start) -> None:
    server = await start_server(api_keys=["right"])
    for key, code in [(None, "unauthorized"), ("wrong", "unauthorized")]:
        async with server.client.socket() as stream:
            shown = {"api_key": key} if key else {}
            refused = await refusal(stream, {"type": "session.start", **MEADOW, **shown})
        assert (refused.code, refused.close_code) == (code, 1008)
    async with server.client.stream(**MEADOW, api_key="right") as stream:
        await stream.chunk()


# What ends a stream, and what does not


@pytest.mark.parametrize(
    ("message", "code", "close_code"), [("hello", "not_json", 1007), (b"\0", "binary_frame", 1003)]
)
async def test_breaking_the_protocol_mid_stream_ends_with_one_error(
    start_server: Start, message: str | bytes, code: str, close_code: int
) -> None:
    server = await start_server(resume_grace_s=0)
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        await stream.socket.send(message)
        with pytest.raises(ServerError) as ended:
            while True:
                await stream.receive()
    assert (ended.value.code, ended.value.close_code) == (code, close_code)
    await server.until(lambda: not server.edge.manager.awake_count)


async def test_text_that_is_not_utf_8_closes_with_1007(
    start_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start_server(resume_grace_s=0)
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        await stream.socket.send(b"\xff\xfe", text=True)
        with pytest.raises(ServerError) as closed:
            while True:
                await stream.receive()
    assert closed.value.close_code == 1007
    await server.until(lambda: not server.edge.manager.awake_count)
    assert not caplog.records


@pytest.mark.parametrize("after_grace", ["suspend", "close"])
async def test_a_client_that_leaves_takes_its_world_along(start_server: Start, after_grace: str) -> None:
    server = await start_server(resume_grace_s=0, after_grace=after_grace)
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
    await server.until(lambda: not server.edge.manager.awake_count)
    assert server.edge.engine.status().worlds == 0


async def test_one_client_s_bad_messages_harm_no_other_stream(server: Any) -> None:
    async with server.client.stream(**MEADOW, seed=1, num_frames=45) as healthy:
        for message in ("hello", b"\0", '{"type": "session.start", "prompt": NaN}'):
            async with server.client.socket() as stream:
                await refusal(stream, message)
        assert [(await healthy.chunk()).metadata["num_frames"] for _ in range(4)] == [9, 12, 12, 12]
        assert (await healthy.done())["stopped"] is False


async def test_a_client_that_neither_reads_nor_writes_is_let_go(start_server: Start) -> None:
    server = await start_server(stall_timeout_s=0.1, resume_grace_s=0)
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        with pytest.raises(ServerError) as stalled:
            await stream.receive()
    assert (stalled.value.code, stalled.value.close_code) == ("stalled", 4408)
    await server.until(lambda: not server.edge.manager.awake_count)


async def test_a_reader_that_stopped_is_reaped_with_its_socket(start_server: Start) -> None:
    server = await start_server(stall_timeout_s=0.2, last_word_timeout_s=0.1, resume_grace_s=0)
    url = socket_url(server.url)
    big = {"width": 832, "height": 480, "format": "jpeg", "extra_params": {"pace_to_media_time": False}}
    async with connect(url, max_queue=1, proxy=None, close_timeout=0.1, ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "session.start", **MEADOW, **big}))
        await server.until(lambda: server.edge.manager.awake_count)
        await server.until(lambda: not server.edge.manager.awake_count)
        state = server.server.server_state
        await server.until(lambda: not state.tasks and not state.connections)


class Broken(PatternEngine):
    """Fails at the second chunk."""

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        if tick.chunk_index == 1:
            raise ChunkFailed("the model raised ValueError")
        async for output in super().run_chunk(tick, slack_s):
            yield output


async def test_a_chunk_that_fails_ends_the_stream_with_one_error(start_server: Start) -> None:
    server = await start_server(Broken())
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        with pytest.raises(ServerError) as failed:
            await stream.chunk()
    assert failed.value.close_code == 1011
    assert "ValueError" in failed.value.message


async def test_a_server_that_stops_says_so_and_closes_with_1001(start_server: Start) -> None:
    server = await start_server()
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        draining = asyncio.create_task(server.edge.drain())
        await stream.done()
        await draining
    assert "session.draining" in [message["type"] for message in stream.messages]
    assert stream.socket.close_code == 1001
