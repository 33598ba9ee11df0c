"""kill -9 of a server that plays: what is seen before and after equals an undisturbed run, byte for byte."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from killed_server import Served, Walker, served, walk_through_kills
from postgres_server import PostgresServer


async def check(data: Path, engine: str, kills: int, seed: int, **settings: str) -> None:
    dice = random.Random(seed)
    async with served(data, engine, WORLDLINE_SNAPSHOT_EVERY="3", **settings) as server:
        walker = await walk_through_kills(server, "killed", kills, 6, dice)
        alone = Walker(server, "alone")
        await alone.walk(len(walker.seen))
        event_ids = await applied(server, "killed")
    assert walker.seen == alone.seen
    assert event_ids == sorted(set(event_ids))


async def test_a_killed_worker_is_no_more_than_a_pause(tmp_path: Path) -> None:
    dice = random.Random(2)
    async with served(tmp_path, "pattern", WORLDLINE_SNAPSHOT_EVERY="3") as server:
        walker = Walker(server, "killed")
        walking = asyncio.create_task(walker.walk(20))
        for chunks in (3, 9):
            while len(walker.seen) < chunks:  # noqa: ASYNC110 - nothing signals a chunk
                await asyncio.sleep(0.005)
            await asyncio.sleep(dice.random() * 0.05)
            server.kill_worker()
        await walking
        alone = Walker(server, "alone")
        await alone.walk(20)
    assert walker.seen == alone.seen


async def applied(server: Served, session_id: str) -> list[int]:
    """The ids of the events that chunks have applied, in order."""
    found: list[int] = []
    after = -1
    while after is not None:
        path = f"/v1/sessions/{session_id}/journal?limit=1000&after={after}"
        page = (await server.client.call("GET", path)).json()
        for fact in page["facts"]:
            if fact["kind"] == "committed":
                found += fact["content"]["event_ids"]
        after = page["next"]
    return found


async def test_a_walk_through_a_few_kills_is_the_undisturbed_walk(tmp_path: Path) -> None:
    await check(tmp_path, "pattern", kills=3, seed=0)


async def test_a_walk_of_the_real_model_through_a_kill_is_the_undisturbed_walk(tmp_path: Path) -> None:
    await check(tmp_path, "native", kills=1, seed=0)


async def test_a_walk_with_its_journal_in_postgresql_through_kills_is_the_undisturbed_walk(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    await check(tmp_path, "pattern", kills=2, seed=1, WORLDLINE_JOURNAL_URL=postgres.new_database())
    assert not (tmp_path / "journal.db").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
async def test_a_walk_through_many_kills_is_the_undisturbed_walk(tmp_path: Path, seed: int) -> None:
    await check(tmp_path, "pattern", kills=25, seed=seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_walk_of_the_real_model_through_kills_is_the_undisturbed_walk(tmp_path: Path) -> None:
    await check(tmp_path, "native", kills=8, seed=0)
