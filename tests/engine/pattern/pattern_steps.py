"""Steps with a pattern engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from engine.api import ChunkCommitted, ChunkReady, EncodedChunk, OpenWorld, Tick
from engine.pattern.engine import PatternEngine
from engine.worker.local import LocalEngine

STILL = ({"keys": ()},) * 3
TURN = ({"keys": ("l",)},) * 3


def request(world: str = "w", **changes: object) -> OpenWorld:
    asked: dict[str, object] = {"width": 96, "height": 64, "fps": 16, "seed": 7, "scene": "city", **changes}
    return OpenWorld(world=world, prompt="a city", **asked)  # type: ignore[arg-type]


def tick(
    index: int, motions: object = STILL, prompt: str = "a city", world: str = "w", epoch: int = 0
) -> Tick:
    conditioning = {"camera": motions} if motions is not None else {}
    return Tick("s", world, epoch, f"r{index}", index, (), prompt, (), conditioning)  # type: ignore[arg-type]


async def started(*requests: OpenWorld, **options: float) -> PatternEngine:
    engine = PatternEngine(**options)  # type: ignore[arg-type]
    await engine.start()
    for each in requests or (request(),):
        await engine.open_world(each)
    return engine


Start = Callable[[], Awaitable[PatternEngine | LocalEngine]]


async def play(engine: PatternEngine | LocalEngine, asked: Tick) -> EncodedChunk:
    ready, committed = [answer async for answer in engine.run_chunk(asked)]
    assert isinstance(ready, ChunkReady) and isinstance(committed, ChunkCommitted)
    assert ready.tick is asked and committed.tick is asked
    return ready.media
