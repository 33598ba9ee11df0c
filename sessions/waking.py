"""How suspended sessions come back."""

from __future__ import annotations

import asyncio

from sessions.admission import Told
from sessions.clock import Clock
from sessions.entrance import Entrance
from sessions.gate import Gate
from sessions.opener import Opener
from sessions.register import Register
from sessions.session import Session
from sessions.tasks import outlasting


class Waking:
    """Each session is woken once, however many ask for it."""

    def __init__(
        self, gate: Gate, register: Register, entrance: Entrance, opener: Opener, clock: Clock
    ) -> None:
        self._gate = gate
        self._register = register
        self._entrance = entrance
        self._opener = opener
        self._clock = clock

    async def ready(
        self, session_id: str, told: Told, replay_after: int | None, owner: str | None
    ) -> Session:
        """See `SessionManager.ready`."""

        async def attempt() -> Session:
            session = await self._awake(session_id, replay_after)
            if session.away:
                await session.revive(replay_after)
            return session

        session = self._register.live.get(session_id)
        if session is None:
            return await self._entrance.enter(owner, session_id, attempt, told, new=False)
        if session.away:
            return await self._entrance.enter_again(owner, attempt, told)
        return await self._awake(session_id, replay_after)

    async def awake(self, session_id: str, replay_after: int | None, owner: str | None) -> Session:
        """See `SessionManager.awake`."""
        if not self._register.asleep(session_id):
            return await self._awake(session_id, replay_after)

        async def attempt() -> Session:
            return await self._awake(session_id, replay_after)

        return await self._entrance.enter(owner, session_id, attempt, new=False)

    async def _awake(self, session_id: str, replay_after: int | None) -> Session:
        register = self._register
        if (live := register.live.get(session_id)) is not None:
            await live.settled()
        if (closing := register.closing.get(session_id)) is not None:
            await asyncio.wait([closing])
        if register.asleep(session_id):
            waking = register.waking.get(session_id)
            if waking is None:
                waking = asyncio.create_task(self._wake(session_id, replay_after))
                register.waking[session_id] = waking
                waking.add_done_callback(lambda _: register.waking.pop(session_id))
            await outlasting(waking)
        return register.get(session_id)

    async def _wake(self, session_id: str, replay_after: int | None) -> Session:
        asked_at = self._clock.now()
        return await self._opener.wake(self._gate.for_sleeping(), session_id, asked_at, replay_after)
