"""Releases run on the worker, whoever stops waiting."""

from __future__ import annotations

import asyncio

import pytest

from kvcache.release import ReleaseQueue, wait_shielded


def test_releases_run_in_order_when_the_worker_drains() -> None:
    queue, ran = ReleaseQueue(), list[str]()
    futures = [queue.request(owner, lambda owner=owner: ran.append(owner)) for owner in "ab"]  # type: ignore[misc]
    assert (ran, len(queue)) == ([], 2)
    assert queue.drain() == 2
    assert ran == ["a", "b"]
    assert all(future.result(0) is None for future in futures)


def test_one_owner_is_released_once_though_many_ask() -> None:
    queue, ran = ReleaseQueue(), list[int]()
    first = queue.request("a", lambda: ran.append(1))
    assert queue.request("a", lambda: ran.append(2)) is first
    queue.drain()
    assert ran == [1]


def test_a_release_that_raises_tells_its_waiters_and_stops_no_other() -> None:
    queue, ran = ReleaseQueue(), list[str]()

    def fail() -> None:
        raise RuntimeError("device is gone")

    failed = queue.request("a", fail)
    queue.request("b", lambda: ran.append("b"))
    queue.drain()
    with pytest.raises(RuntimeError, match="device is gone"):
        failed.result(0)
    assert ran == ["b"]


def test_a_future_can_not_be_cancelled() -> None:
    queue, ran = ReleaseQueue(), list[int]()
    assert not queue.request("a", lambda: ran.append(1)).cancel()
    queue.drain()
    assert ran == [1]


async def test_a_cancelled_waiter_does_not_cancel_the_release() -> None:
    queue, ran = ReleaseQueue(), list[int]()
    future = queue.request("a", lambda: ran.append(1))
    waiter = asyncio.create_task(wait_shielded(future))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    again = asyncio.create_task(wait_shielded(queue.request("a", lambda: ran.append(2))))
    await asyncio.sleep(0)
    queue.drain()
    await again
    assert ran == [1]
