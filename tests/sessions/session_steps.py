"""What tests of a session do over and over."""

from __future__ import annotations

import asyncio
import random

from scripted_engine import ScriptedEngine
from session_fixtures import STEPPED, calm, keys, managed, until

from sessions import facts
from sessions.events import Event
from sessions.journal import Journal
from sessions.manager import SessionManager
from sessions.outputs import ChunkOutput
from sessions.protocol import SessionProtocol
from sessions.session import Session


def press(event_id: int, *pressed: str) -> Event:
    return Event(event_id, None, (keys(*pressed),))


async def facts_of(journal: Journal, session: Session) -> list[facts.Fact]:
    return [record.fact for record in await journal.read(session.info().world)]


async def frames(session: Session, chunks: int) -> list[bytes]:
    return [frame for _ in range(chunks) for frame in (await session.run_chunk()).media.frames]


async def with_chunk_shown(
    engine: ScriptedEngine, **options: object
) -> tuple[Session, asyncio.Task[ChunkOutput]]:
    """A new session, and its first chunk, which was shown and waits for `engine.commits`."""
    engine.commits.clear()
    session = await (await managed(engine, **options)).create(STEPPED)
    chunk = asyncio.create_task(session.run_chunk())
    await until_shown(session)
    return session, chunk


async def close_while_it_suspends(manager: SessionManager, session: Session, go_on: asyncio.Event) -> None:
    """Close a session whose suspension, and with it the close, waits for `go_on`."""
    suspending = asyncio.create_task(session.suspend("idle"))
    await calm()
    closing = asyncio.create_task(manager.close(session.session_id))
    await calm()
    go_on.set()
    await asyncio.gather(suspending, closing)


async def until_shown(session: Session) -> None:
    """Its chunk in flight has left, and is not committed yet."""
    await until(lambda: session._protocol.flight and session._protocol.flight.shown)


def everything(protocol: SessionProtocol) -> dict[str, object]:
    """All that a session's future depends on."""
    return {
        "state": protocol.state,
        "epoch": protocol.epoch,
        "chunk_index": protocol.chunk_index,
        "floor": protocol.floor,
        "next": protocol.next_event_id,
        "pending": [(e.event, e.digest, e.name) for e in protocol._queue.entries],
        "conditions": protocol._conditions,
    }


async def misbehave(session: Session, dice: random.Random, engine: ScriptedEngine) -> None:
    """One thing that a client may do at any time."""
    number = dice.randrange(1000)
    deed = dice.choice(["event", "event", "interact", "interact", "cancel", "reset", "wait", "hold", "go"])
    if deed == "event":
        await session.submit(Event(number, dice.choice([None, "rain"]), (keys(dice.choice("wasd")),)))
    elif deed == "interact":
        await session.interact(dice.choice([None, f"evt-{number % 20}"]), dice.choice(["snow", "fog"]))
    elif deed == "cancel":
        await session.cancel()
    elif deed == "reset":
        await session.reset(resume=dice.random() < 0.7)
    elif deed in ("hold", "go"):
        (engine.gate.clear if deed == "hold" else engine.gate.set)()
    else:
        await calm(dice.randrange(20))
