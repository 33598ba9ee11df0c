"""`GET /v1/sessions/{id}/ledger`: what the engine says, and what is said where it has nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.client import ServerError
from engine.api import EngineLost, WorldLedger
from engine.pattern.engine import PatternEngine

Start = Callable[..., Awaitable[Any]]
WALK = {"session_id": "walk", "mode": "stepped", "prompt": "a meadow", "seed": 7}
LEDGER = "/v1/sessions/walk/ledger"


class TellingEngine(PatternEngine):
    lost = False

    async def read_ledger(self, world: str) -> WorldLedger:
        await super().read_ledger(world)
        if self.lost:
            raise EngineLost("the worker is being started again")
        return WorldLedger(world, ({"fact": "opened", "owner": world, "life": 3},), 640, balanced=True)


async def test_a_session_s_ledger_is_its_world_s(start_server: Start) -> None:
    server = await start_server(TellingEngine())
    await server.client.create(**WALK)
    world = (await server.edge.manager.info("walk")).world
    assert (await server.client.call("GET", LEDGER)).json() == {
        "present": True,
        "live_bytes": 640,
        "balanced": True,
        "facts": [{"fact": "opened", "owner": world, "life": 3}],
    }


async def test_a_session_s_own_view_says_what_its_caches_hold(start_server: Start) -> None:
    engine = TellingEngine()
    server = await start_server(engine)
    await server.client.create(**WALK)

    async def caches() -> object:
        return (await server.client.call("GET", "/v1/sessions/walk")).json()["caches"]

    assert await caches() == {"present": True, "live_bytes": 640, "balanced": True}
    engine.lost = True
    assert await caches() is None
    engine.lost = False
    assert await server.edge.manager.get("walk").evict()
    assert await caches() == {"present": False, "live_bytes": 0, "balanced": None}


async def test_a_session_whose_world_is_put_away_holds_nothing(start_server: Start) -> None:
    server = await start_server(TellingEngine())
    await server.client.create(**WALK)
    assert await server.edge.manager.get("walk").evict()
    assert (await server.client.call("GET", LEDGER)).json() == {
        "present": False,
        "live_bytes": 0,
        "balanced": None,
        "facts": [],
    }


async def test_a_lost_engine_and_an_unknown_session_are_errors(start_server: Start) -> None:
    engine = TellingEngine()
    server = await start_server(engine)
    await server.client.create(**WALK)
    engine.lost = True
    with pytest.raises(ServerError) as lost:
        await server.client.call("GET", LEDGER)
    assert (lost.value.status, lost.value.code) == (503, "engine_lost")
    with pytest.raises(ServerError) as unknown:
        await server.client.call("GET", "/v1/sessions/nobody/ledger")
    assert unknown.value.status == 404
