"""A session that plays, and a viewer who reads what it shows."""

from __future__ import annotations

import asyncio

from manual_clock import ManualClock
from scripted_engine import ScriptedEngine
from session_fixtures import calm, managed, until

from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Done, Failed, Output, Terminal
from sessions.session import Session
from sessions.spec import SessionSpec

CHUNK_S = 12 / 16


class Viewer:
    """Reads an outbox to its end; `chunks` and `others` are what came."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.outputs: list[Output] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for output in self.outbox:
            self.outputs.append(output)

    @property
    def chunks(self) -> list[ChunkOutput]:
        return [output for output in self.outputs if isinstance(output, ChunkOutput)]

    @property
    def others(self) -> list[Output]:
        return [output for output in self.outputs if not isinstance(output, ChunkOutput)]

    async def saw(self, chunks: int) -> None:
        await until(lambda: len(self.chunks) >= chunks)

    async def end(self) -> Terminal:
        await self._task
        terminals = [output for output in self.outputs if isinstance(output, Done | Failed)]
        assert terminals == [self.outputs[-1]], "a stream ends with exactly one terminal message"
        return terminals[0]


class Stage:
    """A session that plays, with everything around it."""

    def __init__(self, engine: ScriptedEngine, clock: ManualClock, session: Session) -> None:
        self.engine = engine
        self.clock = clock
        self.session = session
        self.viewer = Viewer(session.play())

    async def pass_time(self, until_chunks: int) -> None:
        """Move the clock from alarm to alarm until so many chunks have come."""
        await calm()
        while len(self.viewer.chunks) < until_chunks:
            await until(lambda: self.clock.next_alarm is not None)
            self.clock.advance(self.clock.next_alarm - self.clock.now())
            await calm()


async def stage(spec: SessionSpec, engine: ScriptedEngine | None = None, **options: object) -> Stage:
    engine, clock = engine or ScriptedEngine(), ManualClock()
    manager = await managed(engine, clock=clock, **options)
    session = await manager.create(spec)
    return Stage(engine, clock, session)
