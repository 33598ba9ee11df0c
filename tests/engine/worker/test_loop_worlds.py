"""Opening, resetting and closing worlds, whatever is in flight or raises."""

from __future__ import annotations

import asyncio

import pytest
from loop_steps import engine, names, play, reached, walk
from scripted_host import Record, request

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    CloseFailed,
    EngineError,
    EngineLost,
    OpenWorld,
    UnknownWorld,
    WorldRefused,
)


async def test_a_reset_waits_for_the_chunk_in_flight_and_begins_anew() -> None:
    record = Record()
    async with engine(record, "w") as local:
        undisturbed = await walk(local, "w", 2)
        stage, go = record.hold("decode", "w")
        running = asyncio.ensure_future(play(local, "w", 2))
        await reached(stage)
        resetting = asyncio.ensure_future(local.reset_world("w"))
        await asyncio.sleep(0)
        go.set()
        await running
        await resetting
        assert names(record, "w")[-2:] == ["commit", "reset"]
        assert await walk(local, "w", 2) == undisturbed


async def test_a_close_cancels_the_chunk_in_flight_and_then_releases() -> None:
    record = Record()
    async with engine(record, "w") as local:
        stage, go = record.hold("probe", "w")
        running = asyncio.ensure_future(play(local, "w", 0))
        await reached(stage)
        closing = asyncio.ensure_future(local.close_world("w"))
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(ChunkCancelled):
            await running
        await closing
        assert names(record, "w")[-2:] == ["rollback", "close"]
        with pytest.raises(UnknownWorld):
            await play(local, "w", 0)
        await local.close_world("w")


async def test_a_close_that_raises_can_be_retried() -> None:
    record = Record()
    record.fail("close", "w", RuntimeError("device busy"))
    async with engine(record, "w") as local:
        with pytest.raises(CloseFailed, match="world w was not released: RuntimeError: device busy"):
            await local.close_world("w")
        assert local.status().worlds == 1
        await local.close_world("w")
        assert local.status().worlds == 0
        assert local.status().pages_in_use == 0


async def test_an_overdue_close_says_what_is_pending() -> None:
    record = Record()
    stage, go = record.hold("probe", "w")
    async with engine(record, "w", timeout_s=0.01) as local:
        running = asyncio.ensure_future(play(local, "w", 0))
        await reached(stage)
        with pytest.raises(CloseFailed, match=r"close of world w took more than 0\.01 s; pending: chunk 0"):
            await local.close_world("w")
        with pytest.raises(EngineError, match=r"reset of world w took more than 0\.01 s"):
            await local.reset_world("w")
        go.set()
        with pytest.raises(ChunkCancelled):
            await running


async def test_a_refused_open_says_why_and_takes_no_room() -> None:
    async with engine() as local:
        with pytest.raises(WorldRefused, match="allowed is plain") as refusal:
            await local.open_world(OpenWorld("w", "p", 32, 16, 16, 0, scene="moon"))
        assert refusal.value.field == "scene"
        assert local.status().worlds == 0


async def test_an_open_that_breaks_harms_no_one() -> None:
    record = Record()
    record.fail("open", "w", RuntimeError("no memory"))
    async with engine(record) as local:
        with pytest.raises(EngineError, match="world w could not be opened: RuntimeError: no memory"):
            await local.open_world(request("w"))
        await local.open_world(request("w"))
        await play(local, "w", 0)


async def test_a_full_house_refuses_until_someone_leaves() -> None:
    async with engine(None, *"abcdefgh") as local:
        with pytest.raises(CapacityReached):
            await local.open_world(request("i"))
        await local.close_world("a")
        await local.open_world(request("i"))


async def test_an_unknown_world_is_named() -> None:
    async with engine() as local:
        with pytest.raises(UnknownWorld, match="no world x"):
            await play(local, "x", 0)
        with pytest.raises(UnknownWorld, match="no world x"):
            await local.reset_world("x")


async def test_a_stopped_engine_takes_no_work_and_stops_twice() -> None:
    async with engine(None, "w") as local:
        await local.stop()
        with pytest.raises(EngineLost, match="stopped"):
            await play(local, "w", 0)
