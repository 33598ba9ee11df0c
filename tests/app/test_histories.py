"""What a session has been, and going back to it."""

import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import av
import pytest

from app.bootstrap import build_stores
from app.client import Client, ServerError
from app.settings import Settings

Start = Callable[..., Awaitable[Any]]
STEPPED = {"prompt": "a meadow", "seed": 7, "format": "annexb", "mode": "stepped", "session_id": "walk"}


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
    server = await start_server(stores=build_stores(Settings(data=tmp_path)))
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
    server = await start_server(stores=build_stores(Settings(data=tmp_path)), **settings)
    paths = [f"/v1/sessions/walk/{what}" for what in ("video.mp4", "journal")]
    async with Client(server.url, api_key="first-key-of-the-test") as owner:
        await owner.create(**STEPPED)
        await owner.run_chunk("walk")
        before = [(await owner.call("GET", path)).content for path in paths]
        await owner.call("DELETE", "/v1/sessions/walk")
    await server.edge.drain()
    server = await start_server(stores=build_stores(Settings(data=tmp_path)), **settings)
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
