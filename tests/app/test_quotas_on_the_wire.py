"""How quotas are refused: status, close code, when to come back."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.client import Client, ServerError

Start = Callable[..., Awaitable[Any]]
MEADOW = {"prompt": "a meadow"}


async def test_a_key_has_so_many_sessions_at_once(start_server: Start) -> None:
    server = await start_server(api_keys=["one", "two"], sessions_per_key=1)
    async with Client(server.url, api_key="one") as one, Client(server.url, api_key="two") as two:
        created = await one.create(**MEADOW)
        answer = await one.http.post("/v1/sessions", json=MEADOW)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
        assert answer.json()["detail"] == "1 sessions are open, at most 1 may be: close one"
        async with one.socket() as stream:
            with pytest.raises(ServerError) as refused:
                await stream.start(**MEADOW)
            assert (refused.value.code, refused.value.close_code) == ("quota_exceeded", 1008)
        await two.create(**MEADOW)
        await one.call("DELETE", f"/v1/sessions/{created['session_id']}")
        await one.create(**MEADOW)


async def test_a_spent_quota_does_not_ask_to_come_back(start_server: Start) -> None:
    server = await start_server(total_sessions_per_key=1)
    await server.client.create(**MEADOW)
    answer = await server.client.http.post("/v1/sessions", json=MEADOW)
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_spent")
    assert not answer.json()["retryable"] and "retry-after" not in answer.headers


async def test_events_beyond_the_rate_are_rejected_and_the_stream_goes_on(start_server: Start) -> None:
    server = await start_server(events_per_second_per_key=0.01)
    async with server.client.stream(**MEADOW) as stream:
        await stream.keys("w", event_id="first")
        await stream.message("session.interaction.queued")
        await stream.keys("a", event_id="second")
        rejected = await stream.message("session.interaction.rejected")
        assert (rejected["event_id"], rejected["code"], rejected["retryable"]) == (
            "second",
            "rate_limited",
            True,
        )
        await stream.chunk()
        created = await server.client.create(**MEADOW, mode="stepped")
        answer = await server.client.http.post(
            f"/v1/sessions/{created['session_id']}/events", json={"event_id": 0, "prompt": "a hill"}
        )
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert 90 <= int(answer.headers["retry-after"]) <= 100
