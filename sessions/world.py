"""One session's world in the engine: opened, reset and released, each within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from engine.api import (
    CapacityReached,
    CloseFailed,
    EncodedChunk,
    EngineError,
    EngineLost,
    OpenWorld,
    SnapshotRefused,
    UnknownWorld,
)
from sessions.engine_errors import as_session_error
from sessions.errors import (
    ChunkAborted,
    EngineTimeout,
    SessionError,
    SessionFailed,
    SessionTombstoned,
    WorldLost,
)
from sessions.history import History
from sessions.rebuilding import Rebuilder, Rerun
from sessions.services import Services
from sessions.spec import SessionSpec


class World:
    """The session instance `name`. Raises session errors alone.

    `present`: the engine has it, where the session stands; as far as is known.
    """

    def __init__(self, services: Services, name: str) -> None:
        self.name = name
        self.present = False
        self._services = services
        self._engine = services.engine
        self._limits = services.limits
        self._released = False

    async def open(self, spec: SessionSpec) -> None:
        """Make it. Whoever gives up waiting leaves none behind."""
        while True:
            try:
                await self._engine.open_world(open_request(self.name, spec))
            except CapacityReached as full:
                if not await self._services.make_room():
                    raise as_session_error(full) from full
            except EngineError as error:
                raise as_session_error(error) from error
            else:
                self.present = True
                return

    async def fork(self, source: World, spec: SessionSpec) -> bool:
        """Make it as `source` is; False where that has to be done from its history."""
        try:
            await self._engine.fork_world(source.name, open_request(self.name, spec))
        except (UnknownWorld, SnapshotRefused, CapacityReached, EngineLost):
            return False
        except EngineError as error:
            raise as_session_error(error) from error
        self.present = True
        return True

    async def snapshot(self, chunks: int) -> bytes:
        """All of it, after so many chunks. Raises `WorldLost`, `SessionFailed`."""
        try:
            snapshot = await self._engine.snapshot_world(self.name)
        except (UnknownWorld, EngineLost) as error:
            raise WorldLost(str(error)) from error
        except EngineError as error:
            raise as_session_error(error) from error
        if snapshot.chunks != chunks:
            raise SessionFailed(f"the engine's snapshot has {snapshot.chunks} chunks, not {chunks}")
        return snapshot.data

    async def rebuild(
        self,
        history: History,
        check: Callable[[], None],
        replay_from: int | None = None,
        rerun: Rerun | None = None,
    ) -> EncodedChunk | None:
        """Make it again as its history leaves it; see `Rebuilder`.

        Answers the media of a shown chunk in flight, which is run again too.
        """

        def wanted() -> None:
            check()
            if self._released:
                raise ChunkAborted("the session is being closed")

        await self.put_away()  # whatever is left of an attempt that was broken off
        rebuilder = Rebuilder(self._services, open_request(self.name, history.spec), wanted)
        await rebuilder.rebuild(history, replay_from, rerun)
        media = None if history.flight is None else await rebuilder.run_again(history.flight)
        self.present = True
        return media

    async def put_away(self) -> None:
        """Give its memory back for now; it is rebuilt later. Raises `SessionTombstoned`."""
        self.present = False
        try:
            async with asyncio.timeout(self._limits.close_s):
                await self._engine.close_world(self.name)
        except EngineLost:
            pass
        except TimeoutError:
            raise SessionTombstoned(f"the world was not put away in {self._limits.close_s:g} s") from None
        except EngineError as error:
            raise SessionTombstoned(str(error)) from error

    async def cancel(self) -> None:
        """Ask that the chunk in flight be rolled back; a lost engine has done so."""
        with suppress(EngineError):
            await self._engine.cancel_chunk(self.name)

    async def reset(self, turn: asyncio.Lock) -> None:
        """Back to the first frame, once the chunk that runs has left its `turn`; a lost world is left for
        later. Raises `EngineTimeout`, `SessionFailed`.
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
        except SessionError:
            raise
        except Exception as bug:
            raise SessionFailed(f"the engine broke its contract in a reset: {bug!r}") from bug

    async def _reset(self) -> None:
        if not self.present:
            return
        try:
            await self._engine.reset_world(self.name)
        except (UnknownWorld, EngineLost):
            self.present = False

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
