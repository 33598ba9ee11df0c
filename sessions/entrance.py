"""The way of sessions into memory: within their owner's quotas, and in turn where room is short."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sessions.admission import Admission, Told
from sessions.quotas import Meter
from sessions.register import Register
from sessions.session import Session


class Entrance:
    """`told` hears of the position in line: who gives it waits for room, all others are refused."""

    def __init__(self, register: Register, admission: Admission, meter: Meter) -> None:
        self._register = register
        self._admission = admission
        self._meter = meter

    async def enter(
        self,
        owner: str | None,
        session_id: str,
        attempt: Callable[[], Awaitable[Session]],
        told: Told | None = None,
        *,
        new: bool,
    ) -> Session:
        """The session that `attempt` brings into memory; a `new` one counts for ever.

        Raises `QuotaExceeded`, `QuotaSpent`, and what `Admission.enter` does.
        """
        with self._meter.entering(owner, session_id, self._register.in_memory_of(owner), new):
            return await self._admission.enter(owner, attempt, told)

    async def enter_again(
        self, owner: str | None, attempt: Callable[[], Awaitable[Session]], told: Told
    ) -> Session:
        """As `enter`, for one that is in memory, and counted there, while its world was put away."""
        return await self._admission.enter(owner, attempt, told)
