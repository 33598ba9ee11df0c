"""Sessions that outlive their sockets and their server, as clients see them."""

import asyncio
import logging
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

from app.bootstrap import build_stores
from app.client import Chunk, Client, ServerError, Stream
from app.settings import Settings
from app.stores import Stores

Start = Callable[..., Awaitable[Any]]


MEADOW = {"prompt": "a meadow", "seed": 7, "format": "annexb"}


STEPPED = {**MEADOW, "mode": "stepped", "session_id": "walk"}


FAST = {"extra_params": {"pace_to_media_time": False}}


def stores(folder: Path, journal_url: str | None = None) -> Stores:
    return build_stores(Settings(data=folder, journal_url=journal_url))


def index(chunk: Chunk) -> int:
    return int(chunk.metadata["transport_chunk_index"])


async def undisturbed(server: Any, chunks: int) -> list[bytes]:
    async with server.client.stream(**{**MEADOW, **FAST}) as stream:
        data = [(await stream.chunk()).data for _ in range(chunks)]
        await stream.send("session.close")
    return data


async def lose(stream: Stream) -> tuple[str, str]:
    """The connection breaks without a word."""
    stream.socket.transport.abort()
    return stream.video["session_id"], stream.video["token"]


async def test_a_lost_connection_is_resumed_without_a_gap(server: Any) -> None:
    async with server.client.stream(**MEADOW, **FAST) as stream:
        data = [(await stream.chunk()).data for _ in range(3)]
        walk = await lose(stream)
    async with server.client.socket() as stream:
        resumed = await stream.resume(*walk, 2)
        assert (resumed["from_transport_chunk_index"], resumed["epoch"]) == (3, 0)
        assert stream.video["session_id"] == walk[0]
        chunks = [await stream.chunk() for _ in range(3)]
        assert [index(chunk) for chunk in chunks] == [3, 4, 5]
        await stream.send("session.close")
    assert data + [chunk.data for chunk in chunks] == await undisturbed(server, 6)


async def test_after_the_grace_period_a_session_is_suspended_and_comes_back(
    start_server: Start, tmp_path: Path
) -> None:
    server = await start_server(stores=stores(tmp_path), resume_grace_s=0, snapshot_every=2)
    async with server.client.stream(**MEADOW, **FAST) as stream:
        data = [(await stream.chunk()).data for _ in range(5)]
        walk = await lose(stream)
    await server.until(lambda: not server.edge.manager.awake_count)
    seen = (await server.client.call("GET", f"/v1/sessions/{walk[0]}")).json()
    assert seen["status"] == "suspended"
    assert server.edge.engine.status().worlds == 0
    async with server.client.socket() as stream:
        await stream.resume(*walk, 2)
        chunks = [await stream.chunk() for _ in range(5)]
        assert [index(chunk) for chunk in chunks] == [3, 4, 5, 6, 7]
        await stream.send("session.close")
    assert data[:3] + [chunk.data for chunk in chunks] == await undisturbed(server, 8)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_another_server_over_the_same_data_goes_on(
    start_server: Start, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").new_database() if database == "postgres" else None
    first = await start_server(stores=stores(tmp_path, url), snapshot_every=2)
    async with first.client.stream(**MEADOW, **FAST) as stream:
        data = [(await stream.chunk()).data for _ in range(3)]
        walk = stream.video["session_id"], stream.video["token"]
        stopping = asyncio.create_task(first.edge.drain())
        with pytest.raises(ServerError) as ended:
            while True:
                data.append((await stream.chunk()).data)
        assert ended.value.code == "done"
        await stopping
    assert (tmp_path / "journal.db").exists() is (url is None)
    second = await start_server(stores=stores(tmp_path, url), snapshot_every=2)
    listed = (await second.client.call("GET", "/v1/sessions?status=suspended")).json()["sessions"]
    assert [one["session_id"] for one in listed] == [walk[0]]
    async with second.client.socket() as stream:
        await stream.resume(*walk, len(data) - 1)
        for _ in range(3):
            data.append((await stream.chunk()).data)
        await stream.send("session.close")
    assert data == await undisturbed(second, len(data))


async def test_a_journal_that_loses_its_connection_fails_an_event_and_not_the_server(
    start_server: Start, tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    server = await start_server(stores=stores(tmp_path, url))
    await server.client.create(**STEPPED)
    first = await server.client.run_chunk("walk")
    await server.client.call("GET", "/v1/sessions/walk/journal")  # which takes the chunk's commit along
    assert postgres.cut_connections(url) == 1
    event = {"event_id": 1, "prompt": "rain"}
    with pytest.raises(ServerError) as refused:
        await server.client.call("POST", "/v1/sessions/walk/events", event)
    assert (refused.value.status, refused.value.code, refused.value.retryable) == (
        503,
        "journal_unavailable",
        True,
    )
    answer = await server.client.call("POST", "/v1/sessions/walk/events", event)
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
    second = await server.client.run_chunk("walk")
    postgres.cut_connections(url)  # perhaps before the commit is written: it will be, before what comes next
    try:
        third = await server.client.run_chunk("walk")
    except ServerError as error:
        assert error.code == "journal_unavailable"
        third = await server.client.run_chunk("walk")
    assert [index(chunk) for chunk in (first, second, third)] == [0, 1, 2]
    assert second.metadata["started_event_ids"] == ["1"]
    facts = (await server.client.call("GET", "/v1/sessions/walk/journal")).json()["facts"]
    kinds = [fact["kind"] for fact in facts]
    assert kinds == ["opened", "begun", "committed", "event", "begun", "committed", "begun", "committed"]


async def test_the_newest_connection_takes_over(server: Any) -> None:
    async with server.client.stream(**STEPPED) as older, server.client.socket() as newer:
        await older.keys("w")
        await older.chunk()
        await newer.resume("walk", older.video["token"], 0)
        with pytest.raises(ServerError) as gone:
            await older.receive()
        assert (gone.value.code, gone.value.close_code) == ("taken_over", 4409)
        await newer.keys("w")
        assert index(await newer.chunk()) == 1
        await newer.send("session.stop")
        await newer.done()


@pytest.mark.parametrize(
    ("token", "last", "code", "close"),
    [
        ("wrong", 0, "unauthorized", 1008),
        (None, 7, "no_such_chunk", 1008),
    ],
)
async def test_what_can_not_be_resumed_is_refused(
    server: Any, token: str | None, last: int, code: str, close: int
) -> None:
    async with server.client.stream(**STEPPED) as playing, server.client.socket() as stream:
        await playing.keys("w")
        await playing.chunk()
        with pytest.raises(ServerError) as refused:
            await stream.resume("walk", token or playing.video["token"], last)
        assert (refused.value.code, refused.value.close_code) == (code, close)
        await playing.keys("w")
        assert index(await playing.chunk()) == 1


async def test_an_unknown_session_can_not_be_resumed(server: Any) -> None:
    async with server.client.socket() as stream:
        with pytest.raises(ServerError) as refused:
            await stream.resume("nobody", "token", 0)
    assert (refused.value.code, refused.value.close_code) == ("unknown_session", 4404)


async def test_watchers_join_at_any_chunk_and_can_not_play(server: Any) -> None:
    async with server.client.stream(**STEPPED) as playing, server.client.socket() as watching:
        for key in "aw":
            await playing.keys(key)
            await playing.chunk()
        await watching.attach("walk", playing.video["token"])
        assert watching.video["token"] is None
        assert index(await watching.chunk()) == 1
        await watching.keys("s")
        assert (await watching.message("session.warning"))["field"] == "type"
        await watching.send("session.ping")
        await watching.message("session.pong")
        await playing.keys("a")
        assert (await watching.chunk()).data == (await playing.chunk()).data
        await watching.send("session.stop")
        await watching.done()
        await playing.keys("d")
        assert index(await playing.chunk()) == 3


@pytest.mark.parametrize(("sequence", "keys"), [(0, False), (2, True)])
async def test_a_session_that_can_not_be_followed_can_be_closed(
    start_server: Start, tmp_path: Path, sequence: int, keys: bool
) -> None:
    settings = {"api_keys": ["first-key-of-the-test", "other-key-of-the-test"]} if keys else {}
    server = await start_server(stores=stores(tmp_path), **settings)
    async with Client(server.url, api_key="first-key-of-the-test") as owner:
        await owner.create(**STEPPED)
        await owner.run_chunk("walk")
        await server.edge.drain()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE facts SET content = '{}' WHERE sequence = ?", (sequence,))
    database.close()
    server = await start_server(stores=stores(tmp_path), **settings)
    if keys:
        async with Client(server.url, api_key="other-key-of-the-test") as other:
            with pytest.raises(ServerError) as refused:
                await other.call("DELETE", "/v1/sessions/walk")
            assert refused.value.code == "unknown_session"
    async with Client(server.url, api_key="first-key-of-the-test") as owner:
        with pytest.raises(ServerError) as corrupt:
            await owner.call("GET", "/v1/sessions/walk")
        assert corrupt.value.code == "journal_corrupt"
        await owner.call("DELETE", "/v1/sessions/walk")
        assert (await owner.create(**STEPPED))["session_id"] == "walk"


async def test_what_a_quota_takes_from_a_session_is_said(
    start_server: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small = Settings(data=tmp_path, snapshots_max_bytes=60_000, recordings_max_bytes=40_000)
    server = await start_server(stores=build_stores(small), snapshot_every=1)
    call = server.client.call
    await server.client.create(**STEPPED)
    with caplog.at_level(logging.INFO):
        pruned: list[dict[str, Any]] = []
        for number in range(40):
            await call("POST", "/v1/sessions/walk/events", {"event_id": number, "prompt": f"place {number}"})
            await server.client.run_chunk("walk")
            pruned = (await call("GET", "/v1/sessions/walk")).json()["pruned"]
            if any(one["kind"] == "recording" for one in pruned):
                break
    [recording] = [one for one in pruned if one["kind"] == "recording"]
    assert recording["what"] == "the beginning of the recording"
    assert recording["reason"] == "all recordings may take 40000 bytes"
    assert "the beginning of the recording of world" in caplog.text
    metrics = (await call("GET", "/metrics")).text
    counted = re.search(r'worldline_pruned_bytes_total\{kind="recording"\} (\S+)', metrics)
    assert counted is not None and float(counted[1]) == recording["bytes"] > 0
    listed = (await call("GET", "/v1/sessions")).json()["sessions"]
    assert [one["pruned"] for one in listed] == [pruned]
