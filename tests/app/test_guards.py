"""The race that every conversation of a socket is."""

import asyncio

import pytest

from app.guards import first_of


async def answer(value: str) -> str:
    return value


async def fail() -> str:
    raise KeyError("broken on purpose")


async def wait(ended: list[str]) -> str:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("waiting")
    return "never"


async def test_of_parts_that_end_at_once_the_earliest_answers_and_the_others_end() -> None:
    ended: list[str] = []
    assert await first_of(wait(ended), answer("first"), fail(), answer("second")) == "first"
    assert ended == ["waiting"]


async def test_what_a_part_raises_is_raised_when_the_others_have_ended() -> None:
    ended: list[str] = []
    with pytest.raises(KeyError, match="on purpose"):
        await first_of(wait(ended), fail(), answer("second"))
    assert ended == ["waiting"]


async def test_who_is_cancelled_leaves_nothing_running() -> None:
    ended: list[str] = []
    racing = asyncio.create_task(first_of(wait(ended), wait(ended)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    racing.cancel()
    await asyncio.gather(racing, return_exceptions=True)
    assert ended == ["waiting", "waiting"]
