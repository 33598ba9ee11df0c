"""A pattern that now and then computes without letting go of its interpreter lock, as native code may."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

from engine.api import OpenWorld, Tick
from engine.pattern.host import HostedChunk, HostedPattern, PatternHost
from engine.pattern.world import Walk

HOLD = "hold"  # a world whose prompt begins so


def held_host(seconds: float, marks: str) -> PatternHost:
    """The factory that a `Boot` names. `marks` is a folder, where files say that a hold began and ended."""
    return Held(seconds, Path(marks))


def hold_interpreter(seconds: float) -> None:
    """No thread of this process runs Python meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


class Held(PatternHost):
    """Holds while it computes chunk 1 of a world whose prompt asks for it."""

    def __init__(self, seconds: float, marks: Path) -> None:
        super().__init__(capacity=256, chunk_seconds=0.0)
        self.seconds = seconds
        self.marks = marks

    def make(self, request: OpenWorld, walk: Walk) -> HostedPattern:
        made = super().make(request, walk)
        return Holding(self, made, request) if request.prompt.startswith(HOLD) else made


class Holding(HostedPattern):
    """A world that holds."""

    def __init__(self, host: Held, made: HostedPattern, request: OpenWorld) -> None:
        super().__init__(host, request, made._world)
        self._held = host

    def begin_chunk(self, tick: Tick) -> HostedChunk:
        chunk = super().begin_chunk(tick)
        return HoldingChunk(chunk, self._held) if tick.chunk_index == 1 else chunk


class HoldingChunk(HostedChunk):
    """Marks, holds, marks."""

    def __init__(self, chunk: HostedChunk, held: Held) -> None:
        super().__init__(chunk._world, chunk._tick, 0.0)
        self._held = held

    def forwards(self) -> Iterator[None]:
        (self._held.marks / "began").touch()
        hold_interpreter(self._held.seconds)
        (self._held.marks / "ended").touch()
        yield from super().forwards()
