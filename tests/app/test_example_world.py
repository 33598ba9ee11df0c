"""The integrators' example, behind the real server."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import torch

from app.client import Client, ServerError
from docs.example_controls import SCHEMA, TRACK, WindReducer
from docs.example_world import CloudHost
from engine.api import OpenWorld, SnapshotRefused, Tick
from engine.worker.local import LocalEngine
from tests.app.running_server import running

torch.set_num_threads(1)
REQUEST = OpenWorld("w", "clouds", 96, 64, 16, 3, scene="sky")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(LocalEngine(CloudHost()), reducers={TRACK: WindReducer()}) as server:
        yield server.client


def wind(event_id: int, **data: int) -> dict[str, Any]:
    return {"event_id": event_id, "controls": [{"track": TRACK, "schema": SCHEMA, "data": data}]}


async def frames_of(client: Client, session: str, *events: dict[str, Any]) -> list[bytes]:
    await client.create(session_id=session, prompt="clouds", seed=3, mode="stepped", format="annexb")
    chunks = []
    for event in events:
        await client.call("POST", f"/v1/sessions/{session}/events", event)
        chunks.append((await client.run_chunk(session)).data)
    return chunks


async def test_another_model_is_served_with_a_track_of_its_own(client: Client) -> None:
    calm = await frames_of(client, "calm", wind(1, x=0, y=0), wind(2, x=0, y=0))
    windy = await frames_of(client, "windy", wind(1, x=0, y=0), wind(2, x=2, y=1))
    assert calm[0] == windy[0]
    assert calm[1] != windy[1]


async def test_its_reducer_refuses_a_bad_control_at_the_door(client: Client) -> None:
    with pytest.raises(ServerError, match=r"data\.x: got 9, expected -3 to 3") as refused:
        await frames_of(client, "storm", wind(1, x=9, y=0))
    assert refused.value.status == 422


def play(world: Any, first: int, winds: Sequence[tuple[int, int]]) -> list[bytes]:
    played = []
    for index, (x, y) in enumerate(winds, first):
        block = {TRACK: {"x": x, "y": y}}
        chunk = world.begin_chunk(Tick("s", "w", 0, "r", index, (), "clouds", conditioning=block))
        assert sum(1 for _ in chunk.forwards()) == 1
        played.append(chunk.decode().tobytes())
        chunk.write()
        world.commit()
    return played


def test_its_world_rolls_back_forks_and_revives_bit_for_bit() -> None:
    host = CloudHost()
    host.load()
    world = host.open(REQUEST)
    play(world, 0, [(1, 0), (0, 1)])
    chunk = world.begin_chunk(Tick("s", "w", 0, "r", 2, (), "another prompt"))
    list(chunk.forwards())
    world.rollback()
    saved = world.snapshot()()
    fork = world.fork(OpenWorld("w2", "clouds", 96, 64, 16, 3, scene="sky"))
    expected = play(world, 2, [(1, 1), (0, 2)])
    assert play(fork, 2, [(1, 1), (0, 2)]) == expected
    world.close()
    revived = host.restore(REQUEST, saved)
    assert play(revived, 2, [(1, 1), (0, 2)]) == expected
    with pytest.raises(SnapshotRefused):
        host.restore(OpenWorld("w3", "clouds", 48, 32, 16, 3, scene="sky"), saved)
    assert len(host.caches) == 2, "a refused snapshot leaves no world"
    for one in (fork, revived):
        one.close()
    assert host.ledger("w2").balanced and host.ledger("w2").live_bytes == 0
