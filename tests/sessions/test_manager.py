"""Sessions come, are found and listed, and end with their server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from failing_journals import FullJournal
from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import REDUCERS, SPEC, calm, keys, managed, until

from engine.api import CloseFailed, EngineLost, EngineState, OpenWorld, Tick, WorldRefused
from sessions import facts
from sessions.errors import (
    CapacityExceeded,
    Draining,
    EngineUnavailable,
    InvalidControl,
    InvalidSpec,
    JournalUnavailable,
    SessionExists,
    SessionSuspended,
    SessionTombstoned,
    UnknownSession,
)
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.observer import Observer
from sessions.outputs import Done
from sessions.spec import Format
from sessions.state import SessionState


async def test_a_session_gets_the_world_that_its_spec_asks_for() -> None:
    engine = ScriptedEngine()
    manager = await managed(engine)
    spec = replace(SPEC, scene=None, image=b"PNG", format=Format.JPEG, flow_shift=5.0)
    session = await manager.create(spec)
    info = session.info()
    asked = engine.worlds[info.world].request
    assert asked == OpenWorld(info.world, "a meadow", 96, 64, 16, 7, b"PNG", None, "jpeg", 5.0)
    assert info.spec == replace(spec, image=None)  # the journal keeps it; a thousand sessions should not
    assert (info.state, info.epoch, info.chunk_index) == (SessionState.ACTIVE, 0, 0)
    await manager.stop()


async def test_ids_are_chosen_or_made() -> None:
    manager = await managed()
    chosen = await manager.create(replace(SPEC, session_id="my-world"))
    made = await manager.create(SPEC)
    assert manager.get("my-world") is chosen
    assert manager.get(made.session_id) is made
    assert made.session_id != (await manager.create(SPEC)).session_id
    with pytest.raises(UnknownSession):
        manager.get("nobody")
    await manager.stop()


async def test_a_living_id_is_taken_also_while_it_opens() -> None:
    engine = SlowOpening()
    manager = await managed(engine)
    opening = asyncio.create_task(manager.create(replace(SPEC, session_id="s")))
    await calm()
    with pytest.raises(SessionExists):
        await manager.create(replace(SPEC, session_id="s"))
    engine.opens.set()
    await opening
    with pytest.raises(SessionExists):
        await manager.create(replace(SPEC, session_id="s"))
    await manager.stop()


class SlowOpening(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__()
        self.opens = asyncio.Event()

    async def open_world(self, request: OpenWorld) -> None:
        await self.opens.wait()
        await super().open_world(request)


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [(WorldRefused("width", "too wide"), InvalidSpec), (CloseFailed("x"), SessionTombstoned)],
)
async def test_a_refused_world_leaves_nothing(raised: Exception, becomes: type[Exception]) -> None:
    class Refusing(ScriptedEngine):
        async def open_world(self, request: OpenWorld) -> None:
            raise raised

    journal = MemoryJournal()
    manager = await managed(Refusing(), journal=journal)
    with pytest.raises(becomes):
        await manager.create(replace(SPEC, session_id="s"))
    assert await manager.list() == []
    assert await journal.latest("s") is None


async def test_a_refused_world_names_the_field() -> None:
    class Refusing(ScriptedEngine):
        async def open_world(self, request: OpenWorld) -> None:
            raise WorldRefused("width", "width is 97: give a multiple of 16")

    manager = await managed(Refusing())
    with pytest.raises(InvalidSpec, match="multiple of 16") as refused:
        await manager.create(SPEC)
    assert refused.value.field == "width"


@pytest.mark.parametrize(
    ("script", "error", "field"),
    [
        (keys("bad"), InvalidControl, "script.data.keys[0]"),
        (replace(keys("w"), data={"keys": [float("nan")]}), InvalidSpec, "script.data.keys[0]"),
        (replace(keys("w"), schema="keys.v9"), InvalidControl, "script.schema"),
    ],
)
async def test_a_bad_script_is_refused_before_a_world_is_made(
    script: object, error: type[Exception], field: str
) -> None:
    engine = ScriptedEngine()
    manager = await managed(engine)
    with pytest.raises(error) as refused:
        await manager.create(replace(SPEC, script=script))
    assert refused.value.field == field
    assert engine.log == []


async def test_more_busy_sessions_than_the_engine_or_the_limit_has_room_for_are_refused() -> None:
    manager = await managed(ScriptedEngine(capacity=1))
    first = await manager.create(SPEC)
    first.play()
    with pytest.raises(CapacityExceeded):
        await manager.create(SPEC)
    await first.close()
    await manager.create(SPEC)
    limited = await managed(limits=Limits(sessions=1))
    (await limited.create(SPEC)).play()
    with pytest.raises(CapacityExceeded, match="1 sessions are open"):
        await limited.create(SPEC)
    await manager.stop()
    await limited.stop()


async def test_without_a_ready_engine_nothing_is_opened() -> None:
    engine = ScriptedEngine()
    manager = SessionManager(engine, MemoryJournal(), REDUCERS)
    with pytest.raises(EngineUnavailable, match="starting"):
        await manager.create(SPEC)
    await manager.start()
    engine.state = EngineState.RESTARTING
    with pytest.raises(EngineUnavailable, match="restarting"):
        await manager.create(SPEC)


async def test_whoever_gives_up_while_a_session_opens_leaves_none_behind() -> None:
    engine = SlowOpening()
    manager = await managed(engine)
    opening = asyncio.create_task(manager.create(replace(SPEC, session_id="s")))
    await calm()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    engine.opens.set()
    await until(lambda: engine.log == ["open", "close"])
    assert engine.worlds == {}
    await until(lambda: not manager.awake_count)
    await manager.create(replace(SPEC, session_id="s"))


async def test_a_session_that_can_not_be_journalled_is_not_opened() -> None:
    engine = ScriptedEngine()
    journal = FullJournal(facts.SessionOpened)
    manager = await managed(engine, journal=journal)
    with pytest.raises(JournalUnavailable):
        await manager.create(replace(SPEC, session_id="s"))
    assert engine.worlds == {}
    journal.full = False
    await manager.create(replace(SPEC, session_id="s"))


async def test_sessions_are_listed_in_order_by_state_owner_and_page() -> None:
    manager = await managed()
    for session_id, owner in (("c", "key-1"), ("a", "key-2"), ("b", "key-1"), ("d", "key-1")):
        await manager.create(replace(SPEC, session_id=session_id, owner=owner))
    ids = [info.session_id for info in await manager.list()]
    assert ids == ["a", "b", "c", "d"]
    assert [info.session_id for info in await manager.list(after="a", limit=2)] == ["b", "c"]
    assert [info.session_id for info in await manager.list(owner="key-1")] == ["b", "c", "d"]
    assert await manager.list(state=SessionState.FAILED) == []
    await manager.stop()


async def test_stop_suspends_everything_and_takes_nothing_new() -> None:
    engine, journal = ScriptedEngine(), MemoryJournal()
    manager = await managed(engine, journal=journal)
    session = await manager.create(SPEC)
    outbox = session.play()
    await until(lambda: engine.ticks)
    await manager.stop()
    await manager.stop()
    assert engine.worlds == {}
    assert engine.state is EngineState.STOPPED
    assert outbox.terminal is not None
    assert [life.session_id for life in await journal.open_lives()] == [session.session_id]
    with pytest.raises(Draining):
        await manager.create(SPEC)


class Hung(ScriptedEngine):
    """It answers nothing until it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = asyncio.Event()

    async def stop(self) -> None:
        await super().stop()
        self.stopped.set()

    async def probe(self, tick: Tick) -> None:
        await self.cancel_chunk(tick.world)

    async def cancel_chunk(self, world: str) -> None:
        await self.stopped.wait()
        raise EngineLost("the engine was stopped")


async def test_an_engine_that_hangs_does_not_keep_a_server_from_its_end() -> None:
    engine, journal = Hung(), MemoryJournal()
    manager = await managed(engine, journal=journal, limits=Limits(stop_s=0.01))
    session = await manager.create(SPEC)
    outbox = session.play()
    await until(lambda: engine.ticks)
    async with asyncio.timeout(10):
        await manager.stop()
    assert isinstance(outbox.terminal, Done)
    assert [life.session_id for life in await journal.open_lives()] == [session.session_id]


async def test_what_a_former_server_left_open_is_suspended_at_the_start() -> None:
    journal = MemoryJournal()
    before = await managed(journal=journal)
    await before.create(replace(SPEC, session_id="s"))  # and this server is never stopped
    after = await managed(journal=journal)
    assert [info.state for info in await after.list()] == [SessionState.SUSPENDED]
    with pytest.raises(SessionSuspended):
        after.get("s")
    with pytest.raises(SessionExists):
        await after.create(replace(SPEC, session_id="s"))
    await after.close("s")
    await after.create(replace(SPEC, session_id="s"))


async def test_an_observer_hears_of_every_state_and_reason() -> None:
    heard: list[object] = []

    class Listening(Observer):
        def session_moved(self, before: SessionState | None, after: SessionState) -> None:
            heard.append((before and before.value, after.value))

        def session_closed(self, reason: str) -> None:
            heard.append(reason)

    manager = await managed(observer=Listening(), clock=ManualClock())
    session = await manager.create(SPEC)
    await session.close("client")
    assert heard == [(None, "active"), ("active", "closing"), ("closing", "closed"), "client"]
