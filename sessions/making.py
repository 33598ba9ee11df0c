"""How new sessions come: opened, or forked off another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from sessions.admission import Told
from sessions.clock import Clock
from sessions.entrance import Entrance
from sessions.epochs import Fork
from sessions.gate import Gate
from sessions.opener import Opener, checked_spec
from sessions.register import Register
from sessions.services import Services
from sessions.session import Session
from sessions.spec import SessionSpec


class Making:
    """`unwanted` hears of a session that was made when whoever had asked for it had gone."""

    def __init__(
        self,
        gate: Gate,
        register: Register,
        entrance: Entrance,
        opener: Opener,
        clock: Clock,
        unwanted: Callable[[Session], None],
    ) -> None:
        self._gate = gate
        self._register = register
        self._entrance = entrance
        self._opener = opener
        self._clock = clock
        self._unwanted = unwanted

    async def create(self, spec: SessionSpec, told: Told | None) -> Session:
        """See `SessionManager.create`."""
        asked_at = self._clock.now()
        services = self._gate.for_new()
        spec = checked_spec(spec, services.reducers)
        session_id = self._free_id(services, spec.session_id)

        async def attempt() -> Session:
            services = self._gate.for_new()
            self._free_id(services, session_id)
            return await self._made(session_id, self._opener.open(services, session_id, spec, asked_at))

        return await self._entrance.enter(spec.owner, session_id, attempt, told, new=True)

    async def fork(
        self, source: Session, spec: SessionSpec, at_chunk: int | None, asked_at: float
    ) -> Session:
        """See `SessionManager.fork`."""
        services = self._gate.for_new()
        session_id = self._free_id(services, spec.session_id)

        async def attempt() -> Session:
            self._free_id(services, session_id)
            return await self._made(session_id, source.fork(at_chunk, make))

        async def make(fork: Fork) -> Session:
            mine = replace(fork.spec, session_id=session_id, owner=spec.owner, token_digest=spec.token_digest)
            return await self._opener.open(services, session_id, mine, asked_at, fork)

        return await self._entrance.enter(spec.owner, session_id, attempt, new=True)

    async def _made(self, session_id: str, work: Coroutine[Any, Any, Session]) -> Session:
        opening = asyncio.create_task(work)
        self._register.opening[session_id] = opening
        opening.add_done_callback(lambda _: self._register.opening.pop(session_id))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._left_behind)
            raise

    def _left_behind(self, opening: asyncio.Task[Session]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._unwanted(opening.result())

    def _free_id(self, services: Services, asked: str | None) -> str:
        return services.new_id() if asked is None else self._register.free_id(asked)
