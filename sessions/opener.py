"""Making sessions: new ones, forks, and those that were asleep."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.api import Reducer
from sessions import facts
from sessions.controls import check_control
from sessions.epochs import Fork
from sessions.errors import (
    InvalidControl,
    InvalidEvent,
    InvalidSpec,
    SequenceConflict,
    SessionError,
    SessionExists,
    SessionTombstoned,
)
from sessions.events import frozen_control
from sessions.frozen import frozen_text
from sessions.history import History, rebuild
from sessions.pen import Pen
from sessions.register import Register
from sessions.services import Services
from sessions.session import Session
from sessions.spec import SessionSpec
from sessions.world import World

log = logging.getLogger(__name__)


class Opener:
    """Adds what it makes to the register; `deserted` hears of sessions whose client did not come back."""

    def __init__(self, register: Register, deserted: Callable[[Session], None]) -> None:
        self._register = register
        self._deserted = deserted

    async def open(
        self,
        services: Services,
        session_id: str,
        spec: SessionSpec,
        asked_at: float,
        fork: Fork | None = None,
    ) -> Session:
        """A world and its session, durable when this returns; on an error nothing is left of it."""
        await self._register.make_place()
        world = World(services, services.new_id())
        opened = facts.SessionOpened(session_id, world.name, spec, fork.origin if fork else None)
        if fork is None:
            await world.open(spec)
        elif fork.world is not None:
            await world.fork(fork.world, spec)  # or it is made from its history, at its first chunk
        pen = Pen(services.journal, world.name, services.clock)
        try:
            await pen.write(opened)
        except SessionError as error:
            await _release(world)
            if isinstance(error, SequenceConflict):
                raise SessionExists(session_id) from error
            raise
        history = rebuild([opened], services.reducers, services.limits.pending_events)
        return self._session(services, world, pen, history, asked_at, services.clock.wall())

    async def wake(
        self, services: Services, session_id: str, asked_at: float, replay_after: int | None
    ) -> Session:
        """A session that was asleep; see `SessionManager.awake`."""
        await self._register.make_place()
        history, opened_at = await self._register.sleepers.history(session_id)
        world = World(services, history.protocol.world)
        pen = Pen(services.journal, world.name, services.clock, history.count)
        session = self._session(services, world, pen, history, asked_at, opened_at)
        self._register.sleepers.woken(session_id)
        if replay_after is not None:
            await session.revive(replay_after)
        return session

    def _session(
        self,
        services: Services,
        world: World,
        pen: Pen,
        history: History,
        asked_at: float,
        opened_at: float,
    ) -> Session:
        session = Session(
            services,
            world,
            pen,
            history,
            asked_at=asked_at,
            opened_at=opened_at,
            gone=self._register.remove,
            deserted=self._deserted,
        )
        self._register.add(session)
        return session


def checked_spec(spec: SessionSpec, reducers: Mapping[str, Reducer]) -> SessionSpec:
    """The spec with its script frozen; raises `InvalidSpec` and `InvalidControl`."""
    try:
        frozen_text(spec.prompt, "prompt")
        if spec.script is None:
            return spec
        script = frozen_control(spec.script, "script")
    except InvalidControl:
        raise
    except InvalidEvent as error:
        raise InvalidSpec(error.message, field=error.field) from error
    check_control(script, reducers, "script")
    return replace(spec, script=script)


async def _release(world: World) -> None:
    try:
        await world.release(asyncio.Lock())
    except SessionTombstoned as failure:
        log.error("a world that never got its session could not be released: %s", failure)
