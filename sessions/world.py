"""One session's world in the engine: opened, reset and released, each within its time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from engine.api import CloseFailed, EngineError, EngineLost, OpenWorld, UnknownWorld
from sessions import facts
from sessions.engine_errors import as_session_error
from sessions.errors import EngineTimeout, JournalCorrupt, JournalError, SessionFailed, SessionTombstoned
from sessions.services import Services
from sessions.spec import SessionSpec


class World:
    """The session instance `name`. Raises session errors alone."""

    def __init__(self, services: Services, name: str) -> None:
        self.name = name
        self._engine = services.engine
        self._journal = services.journal
        self._limits = services.limits
        self._released = False

    async def open(self, spec: SessionSpec) -> None:
        """Make it. Whoever gives up waiting leaves none behind."""
        try:
            await self._engine.open_world(open_request(self.name, spec))
        except EngineError as error:
            raise as_session_error(error) from error

    async def cancel(self) -> None:
        """Ask that the chunk in flight be rolled back; a lost engine has done so."""
        with suppress(EngineError):
            await self._engine.cancel_chunk(self.name)

    async def reset(self, turn: asyncio.Lock) -> None:
        """Back to the first frame, once the chunk that runs has left its `turn`; made anew where it was lost.

        Raises `EngineTimeout`, `EngineUnavailable`, `CapacityExceeded`, `SessionFailed`.
        """
        try:
            async with asyncio.timeout(self._limits.reset_s):
                await self.cancel()
                async with turn:
                    await self._reset()
        except TimeoutError:
            pending = "a chunk in flight" if turn.locked() else "the engine's answer"
            message = f"the reset took longer than {self._limits.reset_s:g} s; pending: {pending}"
            raise EngineTimeout(message) from None
        except EngineError as error:
            raise as_session_error(error) from error
        except JournalError:
            raise
        except Exception as bug:
            raise SessionFailed(f"the engine broke its contract in a reset: {bug!r}") from bug

    async def _reset(self) -> None:
        try:
            await self._engine.reset_world(self.name)
        except UnknownWorld:
            await self._reopen()

    async def _reopen(self) -> None:
        """Make it again as it was opened; a release that comes meanwhile wins."""
        spec = await self._opened_with()
        if not self._released:
            await self._engine.open_world(open_request(self.name, spec))
        if self._released:
            await self._engine.close_world(self.name)

    async def _opened_with(self) -> SessionSpec:
        """What the session was opened with, image included (which is kept in the journal alone)."""
        for record in await self._journal.read(self.name, limit=1):
            if isinstance(record.fact, facts.SessionOpened):
                return record.fact.spec
        raise JournalCorrupt(f"the life of {self.name} does not begin with its opening")

    async def release(self, turn: asyncio.Lock) -> None:
        """Give its memory back, after the chunk that runs; raises `SessionTombstoned` where that fails."""
        self._released = True
        try:
            async with asyncio.timeout(self._limits.close_s):
                await self.cancel()
                await self._engine.close_world(self.name)
                async with turn:
                    pass  # whoever listened to its last chunk has gone
        except EngineLost:
            pass  # its memory went with the worker
        except TimeoutError:
            pending = "a chunk in flight" if turn.locked() else "the engine's answer"
            message = f"the close took longer than {self._limits.close_s:g} s; pending: {pending}"
            raise SessionTombstoned(message) from None
        except CloseFailed as error:
            raise SessionTombstoned(str(error)) from error
        except Exception as error:  # whatever it was: the world may still be there
            raise SessionTombstoned(f"the engine could not close the world: {error!r}") from error


def open_request(world: str, spec: SessionSpec) -> OpenWorld:
    """What the engine is asked to make."""
    return OpenWorld(
        world=world,
        prompt=spec.prompt,
        width=spec.width,
        height=spec.height,
        fps=spec.fps,
        seed=spec.seed,
        image=spec.image,
        scene=spec.scene,
        media=spec.format.media,
        flow_shift=spec.flow_shift,
    )
