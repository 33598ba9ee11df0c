"""Log lines for machines, and what must never stand in them."""

import asyncio
import base64
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from app.logs import JsonLines, about, configure_logging, subject


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What JSON logging at `debug` writes."""
    root, heard = logging.getLogger(), io.StringIO()
    handler = logging.StreamHandler(heard)
    handler.setFormatter(JsonLines())
    kept = {name: logging.getLogger(name).level for name in (None, "uvicorn", "uvicorn.error", "websockets")}
    before = list(root.handlers)
    configure_logging("debug", "json")
    for other in list(root.handlers):
        root.removeHandler(other)
    for other in [*before, handler]:
        root.addHandler(other)
    yield heard
    root.removeHandler(handler)
    for name, level in kept.items():
        logging.getLogger(name).setLevel(level)


def read(heard: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in heard.getvalue().splitlines()]


def test_a_line_is_one_object_whatever_the_message_holds(lines: io.StringIO) -> None:
    logging.getLogger("worldline").warning("two\nlines \u2028 %s", '"quoted"')
    (line,) = read(lines)
    assert line["message"] == 'two\nlines \u2028 "quoted"'
    assert (line["level"], line["logger"]) == ("warning", "worldline")
    assert line["time"].endswith("+00:00")
    assert "session_id" not in line and "request_id" not in line


def test_a_traceback_stays_within_its_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("worldline").exception("it failed")
    (line,) = read(lines)
    assert line["traceback"].startswith("Traceback") and "ValueError: broken" in line["traceback"]


async def test_lines_name_what_their_task_is_about_and_not_what_another_s_is(lines: io.StringIO) -> None:
    log = logging.getLogger("worldline")

    async def child() -> None:
        log.info("child")

    async def one(name: str) -> None:
        about(session_id=name, request_id=f"request-{name}")
        await asyncio.create_task(child())

    await asyncio.gather(one("a"), one("b"))
    log.info("outside")
    seen = [line for line in read(lines) if line["logger"] == "worldline"]
    assert [line.get("session_id") for line in seen] == ["a", "b", None]
    assert [line.get("request_id") for line in seen] == ["request-a", "request-b", None]
    assert subject() == {}


def picture() -> str:
    data = io.BytesIO()
    Image.new("RGB", (96, 64), (1, 2, 3)).save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


async def test_nothing_that_a_client_entrusts_to_us_is_logged(start_server: Any, lines: io.StringIO) -> None:
    server = await start_server(api_keys=("key-that-is-secret",))
    image, key = picture(), "key-that-is-secret"
    secrets = ["a prompt of mine", "another wish", key, image[:40], image[-40:]]
    async with server.client.socket() as stream:
        video = await stream.start(
            prompt="a prompt of mine",
            api_key=key,
            image_reference={"image_url": f"data:image/png;base64,{image}"},
        )
        secrets.append(video["token"])
        await stream.interact(prompt="another wish")
        await stream.chunk()
        await stream.send("session.interaction", interaction={"prompt": "a prompt of mine"})
        await stream.message("session.interaction.rejected")
        logging.getLogger("worldline").info("while it plays")
        await stream.send("session.stop")
        await stream.done()
    server.client.http.headers["Authorization"] = f"Bearer {key}"
    made = await server.client.create(prompt="a prompt of mine", mode="stepped")
    secrets.append(made["token"])
    await server.client.call(
        "POST", f"/v1/sessions/{made['session_id']}/events", {"event_id": 1, "prompt": "another wish"}
    )
    assert (await server.client.http.post("/v1/sessions", content=b'{"prompt": "a prompt')).status_code == 415
    text = lines.getvalue()
    assert len(read(lines)) > 5  # at `debug` there is something to look through
    for secret in secrets:
        assert secret not in text


class Stubborn(Exception):
    """What a broken engine raises."""


async def test_a_session_s_trouble_is_logged_with_its_ids(start_server: Any, lines: io.StringIO) -> None:
    from engine.pattern.engine import PatternEngine

    class Broken(PatternEngine):
        async def run_chunk(self, tick: Any, slack_s: float | None = None) -> Any:
            raise Stubborn("out of order")
            yield

    server = await start_server(Broken())
    async with server.client.socket() as stream:
        with pytest.raises(Exception, match="failed"):
            video = await stream.start(prompt="a prompt of mine", session_id="troubled")
            await stream.chunk()
    (trouble,) = [line for line in read(lines) if "Stubborn" in line.get("traceback", "")]
    assert trouble["session_id"] == "troubled"
    assert trouble["request_id"] == video["request_id"]


async def test_every_answer_names_its_request(server: Any) -> None:
    first = await server.client.call("GET", "/health")
    second = await server.client.http.get("/v1/sessions/none", headers={"X-Request-ID": "mine"})
    assert second.status_code == 404
    ids = {first.headers["x-request-id"], second.headers["x-request-id"]}
    assert len(ids) == 2 and all(len(name) == 32 for name in ids)
