"""A world of the model as the worker's loop wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from engine.api import Tick
from engine.camera.commands import TRACK
from engine.camera.motion import IDLE_MOTION
from engine.world.sharing import AnyChunk, SharingWorld
from engine.world.world import World


class NativeWorld:
    """Reads ticks for a `World`."""

    def __init__(self, world: World | SharingWorld) -> None:
        self.world = world

    @property
    def chunks(self) -> int:
        """Committed chunks since the epoch began."""
        return self.world.chunks

    def begin_chunk(self, tick: Tick) -> AnyChunk:
        """Stage the next chunk: the tick's prompt and camera; a camera that says nothing stands still."""
        frames = self.world.model.transformer.config.num_frames_per_block
        motions = tick.conditioning.get(TRACK, (IDLE_MOTION,) * frames)
        return self.world.begin_chunk(tick.prompt, cast(tuple[Mapping[str, Any], ...], motions))

    def commit(self) -> None:
        """Write the chunk's K/V."""
        self.world.commit()

    def rollback(self) -> None:
        """Forget the chunk in flight."""
        self.world.rollback()

    def reset(self) -> None:
        """Back to the first frame."""
        self.world.reset()

    def close(self) -> None:
        """Release all memory; idempotent."""
        self.world.close()
