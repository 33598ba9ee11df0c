"""Many sessions, clients and faults at once, in random orders: whatever happens, nothing is left over."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from manual_clock import ManualClock
from scripted_engine import Mortal
from session_fixtures import SPEC, calm, keys, managed, until

from engine.api import ChunkFailed, EngineState, Tick
from sessions.errors import SessionError
from sessions.events import Event
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Done, Failed, Output, ResetDone
from sessions.readiness import LOOK_EVERY_S
from sessions.session import Session
from sessions.spec import Mode, Pacing
from sessions.sql_journal import SqlJournal


class Stormy(Mortal):
    """Fails now and then."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(capacity=6)
        self.dice = dice

    async def probe(self, tick: Tick) -> None:
        await calm(self.dice.randrange(4))
        self.world(tick.world)
        if self.dice.random() < 0.03:
            raise ChunkFailed("out of memory")


class Client:
    """Opens a session, plays, misbehaves, and goes away: politely or not."""

    def __init__(self, manager: SessionManager, dice: random.Random, number: int) -> None:
        self.manager = manager
        self.dice = dice
        self.number = number
        self.outputs: list[list[Output]] = []

    async def live(self) -> None:
        pacing = Pacing(to_media_time=False)
        mode = self.dice.choice(list(Mode))
        frames = self.dice.choice([None, 45])
        spec = replace(SPEC, mode=mode, num_frames=frames, pacing=pacing, seed=self.number)
        try:
            session = await self.manager.create(spec)
        except SessionError:
            return
        try:
            await self.play(session)
        finally:
            await session.close(self.dice.choice(["client", "disconnected"]))

    async def play(self, session: Session) -> None:
        outbox = session.play()
        seen: list[Output] = []
        self.outputs.append(seen)
        reader = asyncio.create_task(self.read(outbox, seen))
        deeds = [asyncio.create_task(self.deed(session)) for _ in range(self.dice.randrange(12))]
        await calm(self.dice.randrange(60))
        if self.dice.random() < 0.3:  # the connection drops
            reader.cancel()
            for deed in deeds:
                deed.cancel()
            outbox.abandon()
            self.outputs.remove(seen)
        else:
            await session.stop()
        outcomes = await asyncio.gather(*deeds, reader, return_exceptions=True)
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, SessionError | asyncio.CancelledError), outcome

    async def read(self, outbox: Outbox, seen: list[Output]) -> None:
        async for output in outbox:
            seen.append(output)
            await calm(self.dice.randrange(3))

    async def deed(self, session: Session) -> None:
        await calm(self.dice.randrange(60))
        number = self.dice.randrange(100)
        deed = self.dice.choice(["event", "interact", "interact", "cancel", "reset", "stop", "close"])
        if deed == "event":
            await session.submit(Event(number, "rain", (keys(self.dice.choice(["w", "bad"])),)))
        elif deed == "interact":
            await session.interact(self.dice.choice([None, f"evt-{number % 5}"]), "snow")
        elif deed == "cancel":
            await session.cancel()
        elif deed == "reset":
            await session.reset(resume=self.dice.random() < 0.5)
        elif self.dice.random() < 0.3:
            await (session.stop() if deed == "stop" else session.close())


def check(outputs: list[Output]) -> None:
    """One terminal message, at the end; chunks in order, each of the epoch that was announced."""
    assert [output for output in outputs if isinstance(output, Done | Failed)] == outputs[-1:]
    epoch = index = 0
    for output in outputs:
        if isinstance(output, ResetDone):
            epoch, index = output.epoch, 0
        elif isinstance(output, ChunkOutput):
            assert output.tick.epoch >= epoch
            epoch, index = output.tick.epoch, index if output.tick.epoch == epoch else 0
            assert output.tick.chunk_index == index
            index += 1


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_clients_and_the_engine_do_nothing_is_left_over(seed: int, tmp_path: Path) -> None:
    tasks = asyncio.all_tasks()
    dice = random.Random(seed)
    engine = Stormy(dice)
    journal = MemoryJournal() if seed % 2 else SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    limits = Limits(outbox_bytes=3000, outbox_messages=4, pending_events=4)
    clock = ManualClock()
    manager = await managed(engine, journal=journal, limits=limits, clock=clock)
    clients = [Client(manager, dice, number) for number in range(12)]
    lives = [asyncio.create_task(client.live()) for client in clients]
    for _ in range(2):
        await calm(dice.randrange(300))
        if dice.random() < 0.5:
            engine.die()
            await calm(dice.randrange(30))
            engine.come_back()
            clock.advance(LOOK_EVERY_S)  # whoever waits for the engine looks again
    async with asyncio.timeout(20):
        await asyncio.gather(*lives)
    assert await manager.list() == []
    assert engine.worlds == {}
    assert await journal.open_lives() == []
    for client in clients:
        for outputs in client.outputs:
            check(outputs)
    assert engine.state is EngineState.READY
    session = await manager.create(replace(SPEC, mode=Mode.STEPPED))
    engine.dice = random.Random(4)  # whose first rolls are fair
    assert (await session.run_chunk()).tick.chunk_index == 0
    await manager.stop()
    await until(lambda: asyncio.all_tasks() == tasks)
