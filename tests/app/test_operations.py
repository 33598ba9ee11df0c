"""Health, readiness, metrics, and the demo's page."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.bootstrap import build_reducers
from app.client import Client, ServerError
from app.main import create_app
from app.serving import Server
from app.settings import Settings
from app.stores import Stores
from engine.api import EngineError, EngineState, ModelCard
from engine.pattern.engine import PatternEngine
from sessions.memory_journal import MemoryJournal
from tests.app.running_server import listening

Start = Callable[..., Awaitable[Any]]


async def test_health_answers(server: Any) -> None:
    assert (await server.client.call("GET", "/health")).json() == {"status": "healthy"}
    assert (await server.client.call("GET", "/healthz")).status_code == 200
    assert (await server.client.call("GET", "/readyz")).json() == {
        "status": "ready",
        "reason": "",
        "waiting": 0,
    }


class Slow(PatternEngine):
    """Loads when it is told to."""

    def __init__(self, error: EngineError | None = None) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self._error = error

    async def start(self) -> ModelCard:
        await self.go.wait()
        if self._error is not None:
            raise self._error
        return await super().start()


async def test_while_the_model_loads_the_server_lives_but_is_not_ready() -> None:
    engine, settings = Slow(), Settings(port=0)
    app = create_app(settings, engine, Stores(MemoryJournal()), build_reducers())
    async with listening(Server(app, settings, app.state.edge.drain)) as url, Client(url) as client:
        assert (await client.call("GET", "/health")).status_code == 200
        answer = await client.http.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
        assert answer.json()["reason"]
        with pytest.raises(ServerError) as refused:
            await client.create(prompt="a")
        assert (refused.value.status, refused.value.code, refused.value.retryable) == (503, "not_ready", True)
        async with client.socket() as stream:
            with pytest.raises(ServerError) as refused:
                await stream.start(prompt="a")
            assert (refused.value.code, refused.value.close_code) == ("not_ready", 1013)
        engine.go.set()
        await app.state.edge.ready.wait()
        assert (await client.call("GET", "/readyz")).status_code == 200


async def test_a_model_that_can_not_be_loaded_is_the_reason_for_not_being_ready(start_server: Start) -> None:
    engine = Slow(EngineError("no such folder: nowhere"))
    engine.go.set()
    server = await start_server(engine)
    answer = await server.client.http.get("/readyz")
    assert answer.status_code == 503
    assert "no such folder: nowhere" in answer.json()["reason"]


async def test_a_restarting_engine_is_not_ready(start_server: Start) -> None:
    class Restarting(PatternEngine):
        def status(self) -> Any:
            from dataclasses import replace

            return replace(
                super().status(), state=EngineState.RESTARTING, reason="the worker died; restarting"
            )

    server = await start_server(Restarting())
    answer = await server.client.http.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "the worker died; restarting")


async def samples(server: Any) -> dict[str, float]:
    text = (await server.client.call("GET", "/metrics")).text
    return {
        sample.name
        + "".join(f"|{value}" for key, value in sorted(sample.labels.items()) if key != "le"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


async def test_metrics_tell_sessions_stages_latencies_and_closes(server: Any) -> None:
    before = await samples(server)
    assert before["worldline_sessions|active"] == 0
    assert before["worldline_engine_ready"] == 1
    async with server.client.stream(prompt="a meadow", mode="stepped", session_id="seen") as stream:
        for key in "dw":
            await stream.keys(key)
            await stream.chunk()
        await stream.interact(prompt=" ")
        await stream.message("session.interaction.rejected")
        during = await samples(server)
        assert during["worldline_sessions|active"] == 1
        assert during["worldline_worlds"] == 1 and during["worldline_pages_in_use"] > 0
        await stream.send("session.stop")
        await stream.done()
    await server.until(lambda: not server.edge.manager.awake_count)
    after = await samples(server)
    assert after["worldline_sessions|active"] == 0
    for stage in ("queue", "denoise", "decode", "encode", "commit", "overhead"):
        assert after[f"worldline_chunk_stage_seconds_count|{stage}"] == 2
    assert after["worldline_first_chunk_seconds_count"] == 1
    assert after["worldline_control_to_frame_seconds_count"] == 2
    assert after["worldline_events_total|accepted"] == 2
    assert after["worldline_events_total|invalid_request"] == 1
    assert after["worldline_sessions_closed_total|stopped"] == 1
    assert after["worldline_socket_closes_total|1000"] == 1
    assert after["worldline_queue_depth"] == 0


async def test_metrics_carry_no_ids(server: Any) -> None:
    async with server.client.stream(prompt="secret words", session_id="secret-id") as stream:
        await stream.chunk()
        text = (await server.client.call("GET", "/metrics")).text
    assert "secret" not in text and stream.video["token"] not in text


async def test_the_demo_is_served_with_a_policy_that_keeps_it_to_itself(server: Any) -> None:
    page = await server.client.call("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    links = re.findall(r'(?:src|href)="/?(static/[^"]+)"', page.text)
    assert links
    for link in links:
        answer = await server.client.call("GET", f"/{link}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.parametrize(
    "path", ["/static/../pyproject.toml", "/static/%2e%2e/pyproject.toml", "/static//etc/passwd"]
)
async def test_nothing_but_the_demo_is_served_from_disk(server: Any, path: str) -> None:
    assert (await server.client.http.get(path)).status_code == 404


async def test_no_other_site_is_let_in_by_cors(server: Any) -> None:
    answer = await server.client.http.get("/v1/models", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


async def test_a_site_that_is_allowed_may_call_the_api_and_no_other(start_server: Start) -> None:
    server = await start_server(allowed_origins=["https://play.example"])
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    http = server.client.http
    for origin, status in (("https://play.example", 200), ("https://evil.example", 400)):
        preflight = await http.options("/v1/sessions", headers={"Origin": origin, **asked})
        assert preflight.status_code == status
        answer = await http.get("/v1/models", headers={"Origin": origin})
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == (origin if status == 200 else None)
        assert "access-control-allow-credentials" not in answer.headers


async def test_a_close_code_that_a_client_made_up_is_counted_as_other(server: Any) -> None:
    async with server.client.stream(prompt="a meadow") as stream:
        await stream.chunk()
        await stream.socket.close(4999)
    await server.until(lambda: not server.server.server_state.tasks)
    assert (await samples(server))["worldline_socket_closes_total|other"] == 1
