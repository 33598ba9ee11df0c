"""Chunks that are asked for one by one, without a stream."""

from __future__ import annotations

import asyncio

from sessions.course import Course
from sessions.epochs import Epochs
from sessions.errors import WrongState
from sessions.outputs import ChunkOutput
from sessions.protocol import SessionProtocol
from sessions.tasks import outlasting
from sessions.world import World


class Stepper:
    """Of one session, up to `most_frames` in an epoch."""

    def __init__(
        self,
        protocol: SessionProtocol,
        world: World,
        course: Course,
        epochs: Epochs,
        most_frames: int | None,
    ) -> None:
        self._protocol = protocol
        self._world = world
        self._course = course
        self._epochs = epochs
        self._most_frames = most_frames

    async def chunk(self) -> ChunkOutput:
        """See `Session.run_chunk`."""
        chunk = asyncio.create_task(self._in_turn(), name=f"chunk of {self._protocol.session_id}")
        try:
            return await outlasting(chunk)
        except asyncio.CancelledError:
            await self._world.cancel()
            raise

    async def _in_turn(self) -> ChunkOutput:
        while True:
            async with self._epochs.lock:
                pass  # a reset or rewind that runs comes first
            async with self._course.turn:
                if not self._epochs.lock.locked():
                    return await self._run()

    async def _run(self) -> ChunkOutput:
        most = self._most_frames
        if most is not None and self._course.runner.frames >= most:
            raise WrongState(f"all {most} frames are made: reset, or open another session")
        return await self._course.chunk(None, None, lambda output: None)
