"""One chunk on its way through the worker, and how long each stage took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.api import ChunkFailed, EngineError, StageTimes, Tick
from engine.worker.rooms import Room, describe
from engine.worker.schedule import Job


@dataclass(slots=True, eq=False)
class Flight:
    """A chunk between its first forward and its end; `error` is why it must be rolled back.

    Its stages run on two threads, each on one of them.
    """

    job: Job
    call: int
    tick: Tick
    room: Room
    error: EngineError | None = None
    milliseconds: dict[str, float] = field(default_factory=dict)

    def fail(self, error: EngineError) -> None:
        """It will be rolled back; the first reason is the one that is told."""
        self.error = self.error or error

    def add(self, stage: str, seconds: float) -> None:
        """A stage, or a part of one, took so long."""
        self.milliseconds[stage] = self.milliseconds.get(stage, 0.0) + seconds * 1000

    @contextmanager
    def stage(self, name: str, began: float | None = None) -> Iterator[None]:
        """Time a stage (from `began` on); whatever it raises becomes a `ChunkFailed` that names it."""
        began = time.perf_counter() if began is None else began
        try:
            yield
        except EngineError:
            raise
        except Exception as error:
            raise ChunkFailed(f"{name} of chunk {self.tick.chunk_index} failed: {describe(error)}") from error
        finally:
            self.add(name, time.perf_counter() - began)

    def times(self) -> StageTimes:
        """The stages until the pixels left."""
        return StageTimes(
            queue_ms=self.milliseconds["queue"],
            denoise_ms=self.milliseconds["denoise"],
            decode_ms=self.milliseconds["decode"],
            encode_ms=self.milliseconds["encode"],
        )
