"""A world of the model as the worker's loop wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from engine.api import OpenWorld, Tick
from engine.camera.commands import TRACK
from engine.camera.motion import IDLE_MOTION
from engine.world.sharing import AnyChunk, SharingWorld
from engine.world.snapshot import take
from engine.world.world import World


class NativeWorld:
    """Reads ticks for a `World`: `world`, or `plain` itself, which it wraps. `forked` continues one anew."""

    def __init__(
        self, world: World | SharingWorld, plain: World, forked: Callable[[World, OpenWorld], NativeWorld]
    ) -> None:
        self.world = world
        self._plain = plain
        self._forked = forked

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
        """Keep the chunk."""
        self.world.commit()

    def rollback(self) -> None:
        """Forget the chunk in flight."""
        self.world.rollback()

    def reset(self) -> None:
        """Back to the first frame."""
        self.world.reset()

    def snapshot(self) -> Callable[[], bytes]:
        """A copy as of the last commit, to be packed."""
        return take(self._plain).pack

    def fork(self, request: OpenWorld) -> NativeWorld:
        """Another world that is as this one after its last commit."""
        return self._forked(self._plain, request)

    def close(self) -> None:
        """Release all memory; idempotent."""
        self.world.close()
