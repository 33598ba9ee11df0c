"""Clients that wait for room, over the wire."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from starlette.types import Message
from starlette.websockets import WebSocket

from app.channel import Channel
from app.client import ServerError, Stream
from app.lobby import Lobby
from engine.pattern.engine import PatternEngine
from sessions.outputs import QueuePosition

Start = Callable[..., Awaitable[Any]]
MEADOW = {"prompt": "a meadow"}


async def in_line(stream: Stream, **fields: Any) -> dict[str, Any]:
    """Ask for a session, and hear the first word of the line."""
    await stream.send("session.start", **MEADOW, **fields)
    return await stream.message("session.queue")


async def test_a_client_waits_for_room_hears_its_place_and_then_plays(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    async with server.client.socket() as first, server.client.socket() as second:
        async with server.client.stream(**MEADOW):
            assert await in_line(first, mode="stepped") == {
                "type": "session.queue",
                "position": 1,
                "depth": 1,
            }
            assert await in_line(second) == {"type": "session.queue", "position": 2, "depth": 2}
            assert await first.message("session.queue") == {
                "type": "session.queue",
                "position": 1,
                "depth": 2,
            }
            assert (await server.client.call("GET", "/readyz")).json()["waiting"] == 2
            assert "worldline_sessions_waiting 2.0" in (await server.client.call("GET", "/metrics")).text
            await first.send("session.ping")
            await first.message("session.pong")
            await first.keys("w", event_id="early")  # kept for the stream
        await first.message("video.start")
        assert (await first.chunk()).metadata["started_event_ids"] == ["early"]
        assert (await second.message("session.queue"))["position"] == 1
        await first.send("session.stop")
        await first.done()
        await second.message("video.start")
        await second.chunk()


class StopsWhenAdmitted(Channel):
    """Its client says `session.stop` at the moment when there is room."""

    def __init__(self) -> None:
        super().__init__(WebSocket({"type": "websocket"}, no_message, no_answer), 1.0)
        self.room = asyncio.Event()

    async def receive(self) -> str:
        if self._unread:
            return await super().receive()
        self.room.set()
        return '{"type": "session.stop"}'

    async def send(self, message: Mapping[str, Any], payload: bytes | None = None) -> None: ...


async def no_message() -> Message:
    raise AssertionError("nothing is received")


async def no_answer(message: Message) -> None:
    raise AssertionError("nothing is sent")


async def test_a_stop_that_comes_with_the_admission_is_kept_for_the_stream(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    channel = StopsWhenAdmitted()

    async def enter(told: Callable[[QueuePosition], object]) -> str:
        told(QueuePosition(1, 1))
        await channel.room.wait()
        return "admitted"

    assert await Lobby(server.edge, channel).wait(enter) == "admitted"
    channel.room.clear()
    assert "session.stop" in await channel.receive()
    assert not channel.room.is_set(), "it was not received anew"


async def test_who_stops_or_leaves_while_waiting_leaves_the_line(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    line = server.edge.manager.line
    async with server.client.stream(**MEADOW), server.client.socket() as last:
        async with server.client.socket() as stopping, server.client.socket() as leaving:
            await in_line(stopping)
            await in_line(leaving)
            assert (await in_line(last))["position"] == 3
            await stopping.send("session.stop")
            done = await stopping.done()
            assert (done["chunks"], done["stopped"]) == (0, True)
            await leaving.socket.close()
            await server.until(lambda: line.depth == 1)
        while (await last.message("session.queue")) != {"type": "session.queue", "position": 1, "depth": 1}:
            pass
    await server.until(lambda: line.depth == 0)


async def test_who_closes_its_session_while_it_waits_for_its_world_has_closed_it(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    made = await server.client.create(**MEADOW, mode="stepped", session_id="mine")
    async with server.client.stream(**MEADOW), server.client.socket() as coming:  # the former has its room
        await coming.send(
            "session.resume", session_id="mine", token=made["token"], last_transport_chunk_index=-1
        )
        await coming.message("session.queue")
        await coming.send("session.close")
        assert (await coming.done())["stopped"]
        with pytest.raises(ServerError) as refused:
            await server.client.call("GET", "/v1/sessions/mine")
        assert refused.value.code == "session_closed"


async def test_a_client_that_does_not_want_to_wait_is_refused_with_its_place(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    async with server.client.stream(**MEADOW), server.client.socket() as waiting:
        await in_line(waiting)
        async with server.client.socket() as hasty:
            with pytest.raises(ServerError) as refused:
                await hasty.start(**MEADOW, wait=False)
        assert (refused.value.code, refused.value.retryable) == ("capacity_exceeded", True)
        await hasty.socket.wait_closed()
        assert hasty.socket.close_code == 1013
        error = hasty.messages[-1]
        assert (error["position"], error["depth"], error["retry_after_seconds"]) == (2, 1, 4.0)
        answer = await server.client.http.post("/v1/sessions", json=MEADOW)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "4"
        problem = answer.json()
        assert (problem["code"], problem["position"], problem["depth"]) == ("capacity_exceeded", 2, 1)


async def test_a_silent_one_stalls_and_one_that_pings_waits_on(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1), stall_timeout_s=0.5)
    async with (
        server.client.stream(**MEADOW) as playing,
        server.client.socket() as pinging,
        server.client.socket() as silent,
    ):
        await in_line(pinging)
        await in_line(silent)
        stalled = asyncio.create_task(silent.done())
        while not stalled.done():
            for stream in (pinging, playing):
                await stream.send("session.ping")
                await stream.message("session.pong")
        with pytest.raises(ServerError) as refused:
            await stalled
        assert refused.value.code == "stalled"
        assert server.edge.manager.line.depth == 1


async def test_who_waited_for_too_long_is_asked_to_come_back(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1), waiting_timeout_s=0.2)
    async with server.client.stream(**MEADOW), server.client.socket() as waiting:
        with pytest.raises(ServerError, match=r"waited 0\.2 seconds") as refused:
            await waiting.start(**MEADOW)
        assert refused.value.code == "capacity_exceeded"
        assert waiting.messages[-1]["position"] == 1


async def test_a_stream_that_finds_no_room_for_its_world_can_be_resumed_later(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1), waiting_max=0, resume_grace_s=0.1)
    async with server.client.socket() as first:
        start = await first.start(**MEADOW, mode="stepped", session_id="mine")
        await first.keys("w")
        await first.chunk()
        async with server.client.stream(**MEADOW):  # takes the idle world's room
            await first.keys("w")
            with pytest.raises(ServerError) as refused:
                await first.chunk()
            assert (refused.value.code, refused.value.retryable) == ("capacity_exceeded", True)
            await first.socket.wait_closed()
            assert first.socket.close_code == 1013
        mine = server.edge.manager
        await server.until(lambda: mine.awake_count == 0)  # it was suspended behind the grace period
    async with server.client.socket() as again:
        await again.resume("mine", start["token"], 0)
        assert (await again.chunk()).metadata["generation_chunk_index"] == 1


async def test_a_server_that_ends_tells_who_waits_and_who_watches(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    async with (
        server.client.stream(**MEADOW, session_id="seen") as playing,
        server.client.socket() as waiting,
        server.client.socket() as watching,
    ):
        await watching.attach("seen", playing.video["token"])
        await in_line(waiting)
        draining = asyncio.create_task(server.edge.drain())
        await watching.message("session.draining")
        await watching.done()
        with pytest.raises(ServerError) as refused:
            await waiting.done()
        assert refused.value.code == "draining"
        for stream in (waiting, watching):
            await stream.socket.wait_closed()
            assert stream.socket.close_code == 1001
        await draining


async def test_a_session_that_was_put_away_waits_for_its_world_when_it_is_resumed(
    start_server: Start,
) -> None:
    server = await start_server(PatternEngine(capacity=1))
    created = await server.client.create(**MEADOW, mode="stepped", session_id="mine")
    await server.client.run_chunk("mine")
    async with server.client.socket() as back:
        async with server.client.stream(**MEADOW):
            await back.send("session.start", session_id="mine", token=created["token"])
            assert (await back.message("session.queue"))["position"] == 1
            answer = await server.client.http.post("/v1/sessions/mine/chunks")
            assert (answer.status_code, answer.json()["position"]) == (503, 2)
        await back.message("video.start")
        await back.keys("w")
        assert (await back.chunk()).metadata["generation_chunk_index"] == 1
