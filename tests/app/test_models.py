"""What is served, and its scenes' pictures."""

import io
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from PIL import Image

from engine.api import Scene
from engine.pattern.card import pattern_card
from engine.pattern.engine import PatternEngine
from tests.app.rest_helpers import refused

Start = Callable[..., Awaitable[Any]]
STEPPED = {"prompt": "a meadow", "mode": "stepped"}


async def test_the_model_is_listed_with_its_scenes_and_controls(start_server: Start) -> None:
    server = await start_server(served_model_name="my-world", model_aliases=["other"])
    (model,) = (await server.client.call("GET", "/v1/models")).json()["data"]
    assert (model["id"], model["aliases"]) == ("my-world", ["other", "pattern"])
    assert model["scenes"][0]["name"] == "harbour"
    assert "lingbot.camera_actions.v1" in model["control_schemas"]["camera"]
    for name in ("my-world", "other", "pattern"):
        await server.client.create(**STEPPED, model=name)


async def test_a_scene_shows_its_picture(start_server: Start) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (96, 64), (9, 99, 9)).save(picture, "webp")
    card = pattern_card(4)
    scenes = (Scene("a hill", "Hill", "a hill", picture.getvalue()), Scene("plain", "Plain", "a plain"))
    server = await start_server(PatternEngine(card=replace(card, scenes=scenes)))
    hill, plain = (await server.client.call("GET", "/v1/models")).json()["data"][0]["scenes"]
    answer = await server.client.call("GET", hill["image"])
    assert (answer.headers["content-type"], answer.content) == ("image/webp", picture.getvalue())
    assert plain["image"] is None
    for name in ("plain", "nowhere", "..%2Fetc"):
        error = await refused(server.client.call("GET", f"/v1/scenes/{name}/image"))
        assert error.status == 404
