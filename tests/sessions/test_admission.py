"""Who is let in when all are busy: in which order, after how long, and what those who wait hear."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import SPEC, STEPPED, calm, managed, until

from engine.api import OpenWorld
from sessions.admission import LOOK_EVERY_S
from sessions.errors import CapacityExceeded, Draining
from sessions.limits import Limits
from sessions.line import Line
from sessions.manager import SessionManager
from sessions.observer import Observer
from sessions.outputs import ChunkOutput, Failed, QueuePosition
from sessions.session import Session


def test_owners_take_turns_and_are_served_in_order_within() -> None:
    line = Line()
    places = {name: line.join(name[0]) for name in ("a1", "a2", "a3", "b1", "c1", "b2")}
    names = {place: name for name, place in places.items()}
    assert [names[place] for place in line] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    line.served(places["a1"])
    assert [names[place] for place in line] == ["b1", "c1", "a2", "b2", "a3"]
    line.leave(places["b1"])
    line.leave(places["b1"])
    line.served(places["b2"])
    assert [names[place] for place in line] == ["c1", "a2", "a3"]


@pytest.mark.parametrize("owner", ["a", "b", "c", None])
def test_the_position_that_another_one_would_have_is_the_one_that_it_gets(owner: str | None) -> None:
    line = Line()
    for other in "aaabba":
        line.join(other)
    foretold = line.position_of_next(owner)
    assert line.position(line.join(owner)) == foretold


class Counting(Observer):
    def __init__(self) -> None:
        self.depths: list[int] = []
        self.left: list[str] = []

    def line_moved(self, depth: int) -> None:
        self.depths.append(depth)

    def line_left(self, outcome: str, seconds: float) -> None:
        self.left.append(outcome)


class Client:
    """Asks for a session, and keeps what it is told."""

    def __init__(self, manager: SessionManager, owner: str | None = None, wait: bool = True) -> None:
        self.told: list[tuple[int, int]] = []
        spec = replace(SPEC, owner=owner)
        self.task = asyncio.create_task(manager.create(spec, self.hear if wait else None))

    def hear(self, position: QueuePosition) -> None:
        self.told.append((position.position, position.depth))


async def full(
    clock: ManualClock, limits: Limits | None = None, observer: Observer | None = None
) -> tuple[SessionManager, Session]:
    """A server of one world, whose session plays."""
    manager = await managed(
        ScriptedEngine(capacity=1), clock=clock, limits=limits or Limits(), observer=observer
    )
    busy = await manager.create(SPEC)
    busy.play()
    return manager, busy


async def test_those_who_wait_are_let_in_by_turns_and_hear_of_every_change() -> None:
    manager, busy = await full(ManualClock())
    clients = [Client(manager, owner) for owner in ("a", "a", "b")]
    await until(lambda: manager.line.depth == 3)
    assert [client.told[-1] for client in clients] == [(1, 3), (3, 3), (2, 3)]
    for client in (clients[0], clients[2], clients[1]):
        await busy.close()
        busy = await client.task
        busy.play()
    assert clients[0].told == [(1, 1), (1, 2), (1, 3)]
    assert clients[1].told == [(2, 2), (3, 3), (2, 2), (1, 1)]
    assert clients[2].told == [(2, 3), (1, 2)]
    await manager.stop()


async def test_nobody_overtakes_those_who_wait_nor_takes_a_busy_world() -> None:
    manager, busy = await full(ManualClock())
    waiting = Client(manager, "a")
    await until(lambda: waiting.told)
    with pytest.raises(CapacityExceeded, match=r"try again in 4 seconds") as refused:
        await Client(manager, "b", wait=False).task
    error = refused.value
    assert (error.position, error.depth, error.retry_after_s) == (2, 1, 4.0)
    assert busy.info().streaming
    waiting.task.cancel()
    await manager.stop()


async def test_a_session_that_falls_idle_makes_room_for_the_first_in_line() -> None:
    clock = ManualClock()
    manager = await managed(ScriptedEngine(capacity=1), clock=clock)
    busy = await manager.create(SPEC)
    outbox = busy.play()
    client = Client(manager)
    await until(lambda: client.told)
    clock.advance(1)
    await calm()
    assert not client.task.done()
    await busy.stop()
    await until(lambda: outbox.terminal)
    clock.advance(1)
    await client.task
    assert busy.away
    await manager.stop()


class Asked(ScriptedEngine):
    """Counts how often it was asked for a world."""

    asked = 0

    async def open_world(self, request: OpenWorld) -> None:
        self.asked += 1
        await super().open_world(request)


async def test_while_no_world_is_free_or_idle_the_engine_is_not_asked_for_one() -> None:
    clock, engine = ManualClock(), Asked(capacity=1)
    manager = await managed(engine, clock=clock)
    busy = await manager.create(SPEC)
    busy.play()
    client = Client(manager)
    await until(lambda: client.told)
    asked = engine.asked
    for _ in range(8):
        clock.advance(LOOK_EVERY_S)
        await calm()
    assert engine.asked == asked
    await busy.close()
    await client.task
    await manager.stop()


async def test_who_leaves_the_line_moves_the_others_up() -> None:
    observer = Counting()
    manager, busy = await full(ManualClock(), observer=observer)
    first, second = Client(manager), Client(manager)
    await until(lambda: second.told == [(2, 2)])
    first.task.cancel()
    await until(lambda: second.told[-1] == (1, 1))
    await busy.close()
    await second.task
    assert observer.left == ["left", "admitted"]
    assert observer.depths[-1] == 0
    await manager.stop()


async def test_the_line_is_bounded_in_number_and_in_time() -> None:
    clock = ManualClock()
    manager, _ = await full(clock, Limits(waiting=1, waiting_s=5.0))
    waiting = Client(manager)
    await until(lambda: waiting.told)
    with pytest.raises(CapacityExceeded) as refused:
        await Client(manager).task
    assert refused.value.position == 2
    clock.advance(5.0)
    with pytest.raises(CapacityExceeded, match="waited 5 seconds"):
        await waiting.task
    assert manager.line.depth == 0
    nobody, _ = await full(clock, Limits(waiting=0))
    with pytest.raises(CapacityExceeded):
        await Client(nobody).task
    await manager.stop()
    await nobody.stop()


async def test_a_server_that_stops_lets_nobody_wait() -> None:
    manager, _ = await full(ManualClock())
    waiting = Client(manager)
    await until(lambda: waiting.told)
    await manager.stop()
    with pytest.raises(Draining):
        await waiting.task


async def test_a_stream_whose_world_made_room_waits_in_line_for_it_too() -> None:
    clock = ManualClock()
    manager = await managed(ScriptedEngine(capacity=1), clock=clock)
    patient = await manager.create(STEPPED)
    outbox = patient.play()
    seen: list[object] = []

    async def read() -> None:
        async for output in outbox:
            seen.append(output)

    reading = asyncio.create_task(read())
    await patient.interact("first", prompt="a hill")
    await until(lambda: any(isinstance(output, ChunkOutput) for output in seen))
    await until(lambda: patient.evictable)
    busy = await manager.create(SPEC)
    busy.play()
    await patient.interact("second", prompt="a lake")
    await until(lambda: QueuePosition(1, 1) in seen)
    await busy.close()
    await until(lambda: sum(isinstance(output, ChunkOutput) for output in seen) == 2)
    assert not any(isinstance(output, Failed) for output in seen)
    await manager.stop()
    await reading


async def test_a_stream_that_is_stopped_leaves_the_line() -> None:
    manager = await managed(ScriptedEngine(capacity=1), clock=ManualClock())
    patient = await manager.create(STEPPED)
    outbox = patient.play()
    await until(lambda: patient.evictable)
    busy = await manager.create(SPEC)
    busy.play()
    await patient.interact("first", prompt="a lake")
    await until(lambda: manager.line.depth == 1)
    await patient.stop()
    assert outbox.terminal is not None
    assert manager.line.depth == 0
    await manager.stop()
