"""Sessions over REST, on a real server."""

import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import av
import httpx
import pytest

from engine.api import CloseFailed
from engine.pattern.engine import PatternEngine
from tests.app.rest_helpers import refused

Start = Callable[..., Awaitable[Any]]


STEPPED = {"prompt": "a meadow", "mode": "stepped"}


WALK = {
    "track": "camera",
    "schema": "lingbot.camera_actions.v1",
    "data": {"mode": "state", "transitions": [{"actions": ["w"]}]},
}


async def test_a_session_is_made_listed_seen_and_closed(server: Any) -> None:
    client = server.client
    answer = await client.call("POST", "/v1/sessions", {**STEPPED, "session_id": "walk"})
    made = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/sessions/walk")
    assert made["session_id"] == "walk" and len(made["token"]) > 30
    assert (made["config"]["width"], made["config"]["height"], made["config"]["mode"]) == (96, 64, "stepped")
    listed = (await client.call("GET", "/v1/sessions")).json()
    assert [one["session_id"] for one in listed["sessions"]] == ["walk"] and listed["next"] is None
    view = (await client.call("GET", made["links"]["self"])).json()
    assert (view["status"], view["chunk_index"], view["pending_event_ids"]) == ("active", 0, [])
    assert "token" not in json.dumps(view)
    assert (await client.call("DELETE", "/v1/sessions/walk")).status_code == 204
    assert (await client.call("DELETE", "/v1/sessions/walk")).status_code == 204
    gone = await refused(client.call("GET", "/v1/sessions/walk"))
    assert (gone.status, gone.code) == (410, "session_closed")


async def test_chunks_are_run_one_by_one_with_all_pending_events(server: Any) -> None:
    client, made = server.client, await server.client.create(**STEPPED)
    path = f"/v1/sessions/{made['session_id']}"
    for event_id in (1, 2):
        assert (
            await client.call("POST", f"{path}/events", {"event_id": event_id, "controls": [WALK]})
        ).status_code == 202
    assert (await client.call("GET", path)).json()["pending_event_ids"] == [1, 2]
    for index in range(3):
        chunk = await client.run_chunk(made["session_id"])
        with av.open(io.BytesIO(chunk.data), format="mp4") as container:
            frames = len(list(container.decode(video=0)))
        assert frames == chunk.metadata["num_frames"] == (12 if index else 9)
        assert chunk.metadata["generation_chunk_index"] == index
        assert chunk.metadata["started_event_ids"] == ([] if index else ["1", "2"])
    view = (await client.call("GET", path)).json()
    assert view["chunk_index"] == 3
    assert view["timing"]["total_ms"] >= view["timing"]["encode_ms"] > 0


async def test_an_event_is_accepted_once_and_then_a_duplicate(server: Any) -> None:
    made = await server.client.create(**STEPPED)
    path = f"/v1/sessions/{made['session_id']}/events"

    async def submit(**body: Any) -> httpx.Response:
        return await server.client.call("POST", path, body)

    assert (await submit(event_id=5, prompt="a desert")).status_code == 202
    again = await submit(event_id=5, prompt="a desert")
    assert (again.status_code, again.json()) == (200, {"event_id": 5, "status": "duplicate"})
    conflict = await refused(submit(event_id=5, prompt="a city"))
    assert (conflict.status, conflict.code) == (409, "event_id_conflict")
    await server.client.run_chunk(made["session_id"])
    stale = await refused(submit(event_id=3, prompt="a city"))
    assert (stale.status, stale.code) == (409, "stale_event")
    assert "event floor is" in stale.message


async def test_an_event_in_the_socket_s_form_is_taken_too(server: Any) -> None:
    made = await server.client.create(**STEPPED)
    camera = {"schema": WALK["schema"], "data": WALK["data"]}
    body = {"event_id": 0, "event": {"prompt": "a desert", "multi_modal_data": {"camera": camera}}}
    assert (
        await server.client.call("POST", f"/v1/sessions/{made['session_id']}/events", body)
    ).status_code == 202


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"event_id": "1", "prompt": "a"}, "invalid_request", "event_id"),
        ({"event_id": -1, "prompt": "a"}, "invalid_request", "event_id"),
        ({"prompt": "a"}, "invalid_request", "event_id"),
        ({"event_id": 1, "prompt": ""}, "invalid_request", "prompt"),
        ({"event_id": 1, "controls": [{**WALK, "track": "sound"}]}, "invalid_request", "controls[0].track"),
        ({"event_id": 1, "controls": [{**WALK, "schema": "x"}]}, "invalid_request", "controls[0].schema"),
        (
            {"event_id": 1, "controls": [{**WALK, "data": {"mode": "fly"}}]},
            "invalid_control",
            "controls[0].data.mode",
        ),
        ({"event_id": 1, "controls": [WALK, WALK]}, "invalid_event", "controls"),
        ({"event_id": 1, "prompt": "a", "colour": 1}, "invalid_request", "colour"),
    ],
)
async def test_a_bad_event_is_refused_by_name(
    server: Any, body: dict[str, Any], code: str, field: str
) -> None:
    made = await server.client.create(**STEPPED)
    error = await refused(server.client.call("POST", f"/v1/sessions/{made['session_id']}/events", body))
    assert (error.status, error.code, error.field, error.retryable) == (422, code, field, False)


async def test_too_many_pending_events_are_refused(start_server: Start) -> None:
    server = await start_server(pending_events=2)
    made = await server.client.create(**STEPPED)
    path = f"/v1/sessions/{made['session_id']}/events"
    for event_id in (1, 2):
        await server.client.call("POST", path, {"event_id": event_id, "prompt": "a"})
    full = await refused(server.client.call("POST", path, {"event_id": 3, "prompt": "a"}))
    assert (full.status, full.code, full.retryable) == (429, "queue_full", True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("POST", "/events"),
        ("POST", "/chunks"),
        ("POST", "/reset"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ],
)
async def test_an_unknown_session_is_404_on_every_route(server: Any, method: str, path: str) -> None:
    body = {"event_id": 1, "prompt": "a"} if path == "/events" else None
    error = await refused(server.client.call(method, f"/v1/sessions/nobody{path}", body))
    assert (error.status, error.code, error.field) == (404, "unknown_session", "session_id")


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({"prompt": None}, 422, "invalid_request", "prompt"),
        ({"width": "wide"}, 422, "invalid_request", "width"),
        ({"token": "t"}, 422, "invalid_request", "token"),
        ({"num_frames": 100}, 422, "invalid_request", "num_frames"),
        (
            {"image_reference": {"image_url": "data:image/png;base64,AAAA"}},
            422,
            "invalid_request",
            "image_reference.image_url",
        ),
        ({"model": "other"}, 404, "unknown_model", "model"),
    ],
)
async def test_a_bad_session_request_is_refused_by_name(
    server: Any, fields: dict[str, Any], status: int, code: str, field: str
) -> None:
    error = await refused(server.client.create(**{**STEPPED, **fields}))
    assert (error.status, error.code, error.field) == (status, code, field)
    assert server.edge.manager.awake_count == 0


async def test_a_wrong_path_or_method_is_a_problem(server: Any) -> None:
    assert (await refused(server.client.call("GET", "/v1/nothing"))).code == "not_found"
    assert (await refused(server.client.call("PUT", "/v1/sessions"))).code == "method_not_allowed"


async def test_a_new_session_is_told_what_of_its_request_was_not_followed(server: Any) -> None:
    made = await server.client.create(**STEPPED, flow_shift=5.0)
    assert [(one["code"], one["field"]) for one in made["warnings"]] == [("shift_fixed", "flow_shift")]
    assert (await server.client.create(**STEPPED))["warnings"] == []


async def test_chunks_over_rest_need_a_stepped_session_that_no_socket_plays(server: Any) -> None:
    continuous = await server.client.create(prompt="a meadow")
    error = await refused(server.client.run_chunk(continuous["session_id"]))
    assert (error.status, error.code) == (409, "not_stepped")
    stepped = await server.client.create(**STEPPED)
    async with server.client.stream(session_id=stepped["session_id"], token=stepped["token"]) as stream:
        await stream.keys("w")
        await stream.chunk()
        error = await refused(server.client.run_chunk(stepped["session_id"]))
        assert (error.status, error.code) == (409, "already_playing")


async def test_a_reset_tells_the_dropped_events_and_starts_over(server: Any) -> None:
    made = await server.client.create(**STEPPED, seed=2, format="annexb")
    path, run = f"/v1/sessions/{made['session_id']}", server.client.run_chunk
    first = await run(made["session_id"])
    await server.client.call("POST", f"{path}/events", {"event_id": 9, "prompt": "a desert"})
    answer = (await server.client.call("POST", f"{path}/reset", {"resume": True})).json()
    assert answer == {"epoch": 1, "discarded_event_ids": ["9"]}
    again = await run(made["session_id"])
    assert again.data == first.data
    assert (await server.client.call("POST", f"{path}/reset")).json()["epoch"] == 2
    waiting = await refused(run(made["session_id"]))
    assert (waiting.status, waiting.code) == (409, "wrong_state")


async def test_cancelling_without_a_chunk_in_flight_cancels_nothing(server: Any) -> None:
    made = await server.client.create(**STEPPED)
    answer = await server.client.call("POST", f"/v1/sessions/{made['session_id']}/cancel")
    assert answer.json() == {"cancelled": False}


async def test_lists_are_paged_and_filtered(server: Any) -> None:
    for name in ("c", "a", "b"):
        await server.client.create(**STEPPED, session_id=name)
    call = server.client.call
    first = (await call("GET", "/v1/sessions?limit=2")).json()
    assert ([one["session_id"] for one in first["sessions"]], first["next"]) == (["a", "b"], "b")
    second = (await call("GET", "/v1/sessions?limit=2&after=b")).json()
    assert ([one["session_id"] for one in second["sessions"]], second["next"]) == (["c"], None)
    assert (await call("GET", "/v1/sessions?status=failed")).json()["sessions"] == []
    wrong = await refused(call("GET", "/v1/sessions?status=happy"))
    assert (wrong.status, wrong.field) == (422, "status")
    assert "active" in wrong.message
    assert (await refused(call("GET", "/v1/sessions?limit=0"))).field == "limit"


async def test_without_room_a_caller_is_asked_to_come_back(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    async with server.client.stream(prompt="a meadow") as stream:
        await stream.chunk()
        answer = await server.client.http.post("/v1/sessions", json=STEPPED)
    assert (answer.status_code, answer.json()["code"]) == (503, "capacity_exceeded")
    assert int(answer.headers["retry-after"]) > 0


class Sticky(PatternEngine):
    """Can't release its first world at once."""

    tries = 0

    async def close_world(self, world: str) -> None:
        self.tries += 1
        if self.tries == 1:
            raise CloseFailed("its encoder still runs")
        await super().close_world(world)


async def test_a_close_that_fails_leaves_a_tombstone_and_may_be_retried(start_server: Start) -> None:
    server = await start_server(Sticky(capacity=1))
    await server.client.create(**STEPPED, session_id="sticky")
    failed = await refused(server.client.call("DELETE", "/v1/sessions/sticky"))
    assert (failed.status, failed.code, failed.retryable) == (500, "cleanup_failed", True)
    view = (await server.client.call("GET", "/v1/sessions/sticky")).json()
    assert view["status"] == "cleanup_failed" and "encoder" in view["reason"]
    again = await refused(server.client.create(**STEPPED, session_id="sticky"))
    assert (again.status, again.code) == (409, "cleanup_failed")
    ready = await server.client.http.get("/readyz")
    assert ready.status_code == 503 and "could not be closed" in ready.json()["reason"]
    assert (await server.client.call("DELETE", "/v1/sessions/sticky")).status_code == 204
    assert (await server.client.http.get("/readyz")).status_code == 200
    await server.client.create(**STEPPED, session_id="sticky")


async def test_a_key_sees_its_own_sessions_alone(start_server: Start) -> None:
    server = await start_server(api_keys=["first key", "second key"])
    http = server.client.http

    def shown(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    refusal = await http.get("/v1/sessions")
    assert (refusal.status_code, refusal.headers["www-authenticate"]) == (401, "Bearer")
    made = await http.post("/v1/sessions", json={**STEPPED, "session_id": "mine"}, headers=shown("first key"))
    assert made.status_code == 201
    assert (await http.get("/v1/sessions/mine", headers=shown("first key"))).status_code == 200
    assert (await http.get("/v1/sessions/mine", headers=shown("second key"))).status_code == 404
    assert (await http.delete("/v1/sessions/mine", headers=shown("second key"))).status_code == 404
    assert (await http.get("/v1/sessions", headers=shown("second key"))).json()["sessions"] == []
    assert (await http.get("/v1/sessions/mine", headers=shown("no key"))).status_code == 401
    assert (await http.get("/v1/models")).status_code == 401
    assert (await http.get("/v1/models", headers=shown("first key"))).status_code == 200
    assert (await http.get("/health")).status_code == 200
