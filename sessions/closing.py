"""How sessions are closed, awake or asleep."""

from __future__ import annotations

import asyncio

from sessions.errors import UnknownSession
from sessions.journal import Journal
from sessions.register import Register
from sessions.snapshots import SnapshotStore, discard_or_warn
from sessions.tasks import outlasting


class Closing:
    """A session that sleeps is closed in its journal alone, and its snapshots are thrown away."""

    def __init__(self, register: Register, journal: Journal, snapshots: SnapshotStore | None) -> None:
        self._register = register
        self._journal = journal
        self._snapshots = snapshots

    async def close(self, session_id: str, reason: str) -> None:
        """See `SessionManager.close`."""
        register = self._register
        while (waking := register.waking.get(session_id)) is not None:
            await asyncio.wait([waking])
        session = register.live.get(session_id)
        if session is not None:
            await session.close(reason)
            await session.settled()
        if register.asleep(session_id):  # perhaps since just now: a suspension may be too far gone to stop
            await self._close_asleep(session_id, reason)
        elif (
            session is None
            and not register.closed_lately(session_id)
            and await self._journal.latest(session_id) is None
        ):
            raise UnknownSession(session_id)

    async def _close_asleep(self, session_id: str, reason: str) -> None:
        """Once, whoever else asks for it meanwhile; who would wake it waits."""
        closing = self._register.closing
        if session_id not in closing:
            closing[session_id] = asyncio.create_task(self._end_asleep(session_id, reason))
            closing[session_id].add_done_callback(lambda _: closing.pop(session_id))
        await outlasting(closing[session_id])

    async def _end_asleep(self, session_id: str, reason: str) -> None:
        sleepers = self._register.sleepers
        world = sleepers.world_of(session_id)
        await sleepers.close(session_id, reason)
        self._register.remember(session_id)
        await discard_or_warn(self._snapshots, world)
