"""A session's chunks, one after another, on a world that may be lost and found again meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from sessions.audience import Audience
from sessions.errors import JournalUnavailable, SessionError, SessionFailed, WorldLost
from sessions.keeper import Keeper
from sessions.outputs import ChunkOutput
from sessions.protocol import SessionProtocol
from sessions.runner import ChunkRunner, Show


class Course:
    """Runs chunks for whoever has the `turn`. `fail` is called with what fails the session."""

    def __init__(
        self,
        protocol: SessionProtocol,
        runner: ChunkRunner,
        keeper: Keeper,
        audience: Audience,
        fail: Callable[[SessionError], None],
    ) -> None:
        self.turn = asyncio.Lock()  # held while a chunk, a reset or a rewind has the world
        self.runner = runner
        self._protocol = protocol
        self.keeper = keeper
        self._audience = audience
        self._fail = fail

    async def chunk(
        self, event_ids: Collection[int] | None, slack_s: float | None, show: Show
    ) -> ChunkOutput:
        """As `ChunkRunner.run`, but a chunk whose world is lost is run again in another.

        Raises what that does, and `EngineUnavailable` or `CapacityExceeded` where there is no world to be had
        now: the session may go on later.
        """
        try:
            output = await self._chunk(event_ids, slack_s, show)
        except SessionFailed as failure:
            self._fail(failure)  # the first who says so is heard
            raise
        await self.keeper.committed(output)
        return output

    def restart(self) -> None:
        """A new epoch begins."""
        self.runner.restart()
        self.keeper.point = None
        self._audience.tape.new_epoch()

    async def revive(self, replay_after: int | None = None) -> None:
        """Have the world, before a chunk asks for it."""
        async with self.turn:
            await self._ensure(replay_after)

    async def settle(self) -> None:
        """Commit the chunk that was shown when the world was lost, if any: no other can begin before."""
        async with self.turn:
            if self._protocol.flight is not None:
                await self._ensure(None)

    async def _ensure(self, replay_after: int | None) -> None:
        try:
            await self.keeper.ensure(replay_after)
        except SessionFailed as failure:
            self._fail(failure)
            raise

    async def _chunk(
        self, event_ids: Collection[int] | None, slack_s: float | None, show: Show
    ) -> ChunkOutput:
        def shown(output: ChunkOutput) -> None:
            self._audience.show(output)
            show(output)

        while True:
            await self.keeper.ensure()
            try:
                return await self.runner.run(event_ids, slack_s, shown)
            except WorldLost as loss:
                self.keeper.lost(loss)
            except JournalUnavailable:
                self.keeper.strayed()
                raise
            output = self.runner.unfinished
            if output is not None:
                await self.keeper.ensure()
                self.runner.unfinished = None
                return output
