"""Sessions that outlive their sockets and their server, as clients see them."""

import asyncio
import io
import json
import logging
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import av
import pytest
from postgres_server import PostgresServer

from app.bootstrap import build_stores
from app.client import Chunk, Client, ServerError, Stream
from app.data_lock import DataInUse, DataLock
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


async def test_a_rewind_is_told_and_played_on(server: Any) -> None:
    async with server.client.stream(**STEPPED) as stream:
        first = []
        for key in "awd":
            await stream.keys(key)
            first.append(await stream.chunk())
        await stream.send("session.rewind", to_chunk=1)
        assert await stream.message("session.rewound") == {
            "type": "session.rewound",
            "epoch": 1,
            "chunk_index": 1,
        }
        await stream.keys("w")
        assert (await stream.chunk()).data == first[1].data
        await stream.send("session.rewind", to_chunk=9)
        assert (await stream.message("session.warning"))["field"] == "to_chunk"


async def test_a_fork_goes_on_by_itself(server: Any) -> None:
    call = server.client.call
    await server.client.create(**STEPPED)
    for number in range(3):
        await call("POST", "/v1/sessions/walk/events", {"event_id": number, "prompt": f"place {number}"})
        await server.client.run_chunk("walk")
    made = (await call("POST", "/v1/sessions/walk/fork", {"at_chunk": 2, "session_id": "other"})).json()
    assert made["session_id"] == "other" and made["token"]
    await call("POST", "/v1/sessions/other/events", {"event_id": 7, "prompt": "place 2"})
    await call("POST", "/v1/sessions/walk/rewind", {"to_chunk": 2})
    await call("POST", "/v1/sessions/walk/events", {"event_id": 7, "prompt": "place 2"})
    theirs, ours = await server.client.run_chunk("other"), await server.client.run_chunk("walk")
    assert theirs.data == ours.data
    with pytest.raises(ServerError) as refused:
        await call("POST", "/v1/sessions/walk/fork", {"at_chunk": 9})
    assert (refused.value.status, refused.value.field) == (409, "at_chunk")


async def test_the_journal_shows_facts_and_no_secrets(server: Any) -> None:
    await server.client.create(**STEPPED)
    await server.client.run_chunk("walk")
    page = (await server.client.call("GET", "/v1/sessions/walk/journal?limit=2")).json()
    assert [fact["kind"] for fact in page["facts"]] == ["opened", "begun"]
    assert "token_digest" not in page["facts"][0]["content"]["spec"]
    rest = (await server.client.call("GET", f"/v1/sessions/walk/journal?after={page['next']}")).json()
    assert ([fact["kind"] for fact in rest["facts"]], rest["next"]) == (["committed"], None)


async def test_the_video_holds_every_frame_that_was_shown(start_server: Start, tmp_path: Path) -> None:
    server = await start_server(stores=stores(tmp_path))
    await server.client.create(**STEPPED)
    with pytest.raises(ServerError) as empty:
        await server.client.call("GET", "/v1/sessions/walk/video.mp4")
    assert empty.value.code == "nothing_recorded"
    for _ in range(3):
        await server.client.run_chunk("walk")
    answer = await server.client.call("GET", "/v1/sessions/walk/video.mp4")
    with av.open(io.BytesIO(answer.content)) as container:
        assert len(list(container.decode(video=0))) == 9 + 12 + 12


async def test_what_is_recorded_of_a_closed_session_is_there_for_its_owner_alone(
    start_server: Start, tmp_path: Path
) -> None:
    settings = {"api_keys": ["first-key-of-the-test", "other-key-of-the-test"]}
    server = await start_server(stores=stores(tmp_path), **settings)
    paths = [f"/v1/sessions/walk/{what}" for what in ("video.mp4", "journal")]
    async with Client(server.url, api_key="first-key-of-the-test") as owner:
        await owner.create(**STEPPED)
        await owner.run_chunk("walk")
        before = [(await owner.call("GET", path)).content for path in paths]
        await owner.call("DELETE", "/v1/sessions/walk")
    await server.edge.drain()
    server = await start_server(stores=stores(tmp_path), **settings)
    async with Client(server.url, api_key="first-key-of-the-test") as owner:
        video, journal = [(await owner.call("GET", path)).content for path in paths]
        assert video == before[0]
        assert [fact["kind"] for fact in json.loads(journal)["facts"]] == [
            "opened",
            "begun",
            "committed",
            "closed",
        ]
    async with Client(server.url, api_key="other-key-of-the-test") as other:
        for path in (*paths, "/v1/sessions/never/video.mp4"):
            with pytest.raises(ServerError) as refused:
                await other.call("GET", path)
            assert (refused.value.status, refused.value.code) == (404, "unknown_session")


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


def test_one_server_has_a_data_folder(tmp_path: Path) -> None:
    first, second = DataLock(tmp_path), DataLock(tmp_path)
    first.acquire()
    with pytest.raises(DataInUse, match="in use by another server"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()
