"""What one owner may have, and what is told of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, STEPPED, calm, managed, until

from sessions.errors import QuotaExceeded, QuotaSpent, RateLimited, StorageUnavailable
from sessions.events import Acceptance, Event
from sessions.facts import EventAccepted, Fact
from sessions.limits import Limits
from sessions.memory_journal import MemoryJournal
from sessions.outputs import InteractionQueued, InteractionRejected
from sessions.quotas import Quotas
from sessions.usage import FileUsage


async def until_later(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (a thread tells nobody)
            await asyncio.sleep(0.01)


class SlowEvents(MemoryJournal):
    """Events are durable a few turns of the loop after they were written."""

    def append(self, world: str, expected: int, fact: Fact, at: float) -> asyncio.Future[None]:
        appended = super().append(world, expected, fact, at)
        return asyncio.ensure_future(self._later(appended)) if isinstance(fact, EventAccepted) else appended

    async def _later(self, appended: asyncio.Future[None]) -> None:
        await calm(3)
        await appended


def spec(owner: str | None, session_id: str | None = None) -> object:
    return replace(STEPPED, owner=owner, session_id=session_id)


async def test_an_owner_has_so_many_sessions_at_once_and_suspended_ones_are_free() -> None:
    manager = await managed(limits=Limits(quotas=Quotas(sessions=2)))
    first = await manager.create(spec("a", "first"))
    await manager.create(spec("a"))
    with pytest.raises(QuotaExceeded, match="2 sessions are open, at most 2 may be"):
        await manager.create(spec("a"))
    with pytest.raises(QuotaExceeded):
        await manager.fork("first", spec("a"))
    await manager.create(spec("b"))
    await first.suspend("idle")
    await manager.create(spec("a"))
    with pytest.raises(QuotaExceeded):
        await manager.awake("first", owner="a")
    await manager.stop()


async def test_sessions_that_are_being_made_count_too() -> None:
    manager = await managed(limits=Limits(quotas=Quotas(sessions=1)))
    made = await asyncio.gather(*(manager.create(spec("a")) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(result, QuotaExceeded) for result in made) == 4
    await manager.stop()


async def test_a_session_that_comes_back_twice_at_once_counts_once() -> None:
    manager = await managed(limits=Limits(quotas=Quotas(sessions=1)))
    session = await manager.create(spec("a", "s"))
    await session.suspend("idle")
    ready = [manager.ready("s", lambda position: None, owner="a") for _ in range(2)]
    one, two = await asyncio.gather(*ready)
    assert one is two
    await manager.stop()


async def test_a_session_in_memory_that_waits_for_its_world_counts_once() -> None:
    manager = await managed(ScriptedEngine(capacity=1), limits=Limits(quotas=Quotas(sessions=2)))
    session = await manager.create(spec("a", "s"))
    await session.suspend("idle")
    (await manager.create(replace(SPEC, owner="b"))).play()
    coming = asyncio.create_task(manager.ready("s", lambda position: None, owner="a"))
    await until(lambda: manager.line.waiting("a") == 1 and manager.awake_count == 2)
    another = asyncio.create_task(manager.create(spec("a"), lambda position: None))
    await until(lambda: another.done() or manager.line.waiting("a") == 2)
    assert not another.done()
    await manager.stop()
    await asyncio.gather(coming, another, return_exceptions=True)


async def test_a_session_that_comes_back_is_not_one_more_that_was_made() -> None:
    manager = await managed(limits=Limits(quotas=Quotas(total_sessions=2)))
    session = await manager.create(spec("a", "s"))
    await session.suspend("idle")
    await asyncio.gather(manager.awake("s", owner="a"), manager.create(spec("a")))
    await manager.stop()


async def test_events_come_at_the_rate_that_is_allowed_over_all_sessions_of_an_owner() -> None:
    clock = ManualClock()
    manager = await managed(clock=clock, limits=Limits(quotas=Quotas(events_per_s=2)))
    one, two = [await manager.create(spec("a")) for _ in range(2)]
    other = await manager.create(spec("b"))
    await one.submit(Event(0, "a hill"))
    await two.submit(Event(0, "a hill"))
    with pytest.raises(RateLimited, match="more than 2 events per second") as refused:
        await one.submit(Event(1, "a lake"))
    assert refused.value.retry_after_s == pytest.approx(0.5)
    await other.submit(Event(0, "a hill"))
    clock.advance(0.5)
    await one.submit(Event(1, "a lake"))
    await manager.stop()


async def test_an_interaction_beyond_the_rate_is_rejected_as_one_to_try_again_and_the_stream_goes_on() -> (
    None
):
    clock = ManualClock()
    manager = await managed(clock=clock, limits=Limits(quotas=Quotas(events_per_s=1)))
    session = await manager.create(SPEC)
    outbox = session.play()
    answers: list[object] = []

    async def read() -> None:
        async for output in outbox:
            if isinstance(output, InteractionQueued | InteractionRejected):
                answers.append(output)

    reading = asyncio.create_task(read())
    await session.interact("one", prompt="a hill")
    await session.interact("two", prompt="a lake")
    clock.advance(1)
    await session.interact("two", prompt="a lake")
    await manager.stop()
    await reading
    queued, rejected, again = answers
    assert queued == InteractionQueued("one") and again == InteractionQueued("two")
    assert isinstance(rejected, InteractionRejected)
    assert (rejected.event_id, rejected.code, rejected.retryable) == ("two", "rate_limited", True)


async def test_totals_outlive_the_server(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    limits = Limits(quotas=Quotas(total_sessions=2, total_events=1))
    manager = await managed(limits=limits, usage=FileUsage(path))
    session = await manager.create(spec("a", "kept"))
    await session.submit(Event(0, "a hill"))
    with pytest.raises(QuotaSpent, match="1 events were accepted, at most 1 may ever be"):
        await session.submit(Event(1, "a lake"))
    await manager.stop()
    manager = await managed(limits=limits, usage=FileUsage(path))
    session = await manager.create(spec("a"))
    with pytest.raises(QuotaSpent):
        await session.submit(Event(0, "a hill"))
    await session.close()
    with pytest.raises(QuotaSpent, match="2 sessions were made, at most 2 may ever be"):
        await manager.create(spec("a"))
    await manager.create(spec(None))
    await manager.stop()


async def test_no_more_events_are_accepted_than_may_ever_be_however_many_come_at_once() -> None:
    manager = await managed(journal=SlowEvents(), limits=Limits(quotas=Quotas(total_events=3)))
    sessions = [await manager.create(spec("a")) for _ in range(4)]
    coming = [session.submit(Event(number, "a hill")) for session in sessions for number in range(4)]
    results = await asyncio.gather(*coming, return_exceptions=True)
    assert [result for result in results if not isinstance(result, QuotaSpent)] == [Acceptance.ACCEPTED] * 3
    taken = results.index(Acceptance.ACCEPTED)
    again = await sessions[taken // 4].submit(Event(taken % 4, "a hill"))
    assert again is Acceptance.DUPLICATE, "the answer may have been lost"
    await manager.stop()


class WatchedUsage(FileUsage):
    """`writes` has what was written; `during` is called in the middle of a write."""

    def __init__(self, path: Path, during: Callable[[], None]) -> None:
        super().__init__(path)
        self.writes: list[str] = []
        self._during = during

    def _write(self, text: str) -> None:
        self._during()
        super()._write(text)
        self.writes.append(text)


async def test_what_changes_while_totals_are_written_is_written_too(tmp_path: Path) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def during() -> None:
        writing.set()
        assert go_on.wait(10)

    usage = WatchedUsage(tmp_path / "usage.json", during)
    usage.add_event("a")
    await asyncio.to_thread(writing.wait, 10)
    usage.add_event("a")
    go_on.set()
    await until_later(lambda: len(usage.writes) == 2)
    assert json.loads(usage.writes[-1])["a"]["events"] == 2
    await usage.stop()
    assert len(usage.writes) == 2, "nothing was left to write"


async def test_totals_that_can_not_be_written_are_tried_again_and_stop_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    usage = FileUsage(folder / "usage.json")
    manager = await managed(usage=usage)
    await manager.create(spec("a"))
    await manager.stop()
    folder.mkdir()
    await usage.stop()
    assert json.loads((folder / "usage.json").read_text())["a"]["sessions"] == 1


async def test_totals_that_can_not_be_read_are_not_forgotten_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    path.write_text("{broken")
    with pytest.raises(StorageUnavailable, match=r"usage\.json can't be read"):
        await FileUsage(path).start()
