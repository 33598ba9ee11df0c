"""Plays a script through the engine that the server's worker runs, chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.api import EncodedChunk, OpenWorld, Tick
from engine.camera.reducer import CameraReducer
from engine.media.chunk import encode_chunk
from engine.native.host import NativeHost
from engine.native.world import NativeWorld
from engine.offline.script import FRAMES_PER_BLOCK, Event, frames_before
from engine.world.chunk import Chunk


@dataclass(frozen=True, slots=True)
class GeneratedChunk:
    """One chunk: the tick it was made of, its media, its clean latents fp32 [1, C, F, h, w], milliseconds."""

    tick: Tick
    media: EncodedChunk
    latents: NDArray[np.float32]
    compute_ms: float
    commit_ms: float

    def facts(self) -> Mapping[str, object]:
        """What a video's metadata says of it, as JSON."""
        return {
            "chunk_index": self.tick.chunk_index,
            "event_ids": list(self.tick.event_ids),
            "prompt": self.tick.prompt,
            "first_frame": self.media.first_frame,
            "frames": len(self.media.frames),
            "digest": self.media.digest,
            "compute_ms": round(self.compute_ms, 3),
            "commit_ms": round(self.commit_ms, 3),
        }


def generate(host: NativeHost, request: OpenWorld, script: Sequence[Event]) -> Iterator[GeneratedChunk]:
    """Play a world of a loaded host from its first chunk, one chunk per event; it is closed in any case.

    Raises `WorldRefused`, `CapacityReached`, and whatever the model raises. A chunk is encoded while its K/V
    is written and the next one computed, and comes when all is done.
    """
    world = host.open(request)
    with ThreadPoolExecutor(1, thread_name_prefix="encoder") as encoder:
        try:
            pending: _Running | None = None
            for tick in ticks(request, script):
                running = _play(world, tick, request, encoder)
                if pending is not None:
                    yield pending.result()
                pending = running
            if pending is not None:
                yield pending.result()
        finally:
            world.close()


def ticks(request: OpenWorld, script: Sequence[Event]) -> Iterator[Tick]:
    """What a session that was sent `script`, one event before each chunk, asks of its engine."""
    reducer = CameraReducer(FRAMES_PER_BLOCK)
    state, prompt = reducer.initial(), request.prompt
    for index, event in enumerate(script):
        prompt = prompt if event.prompt is None else event.prompt
        for control in event.controls:
            state = reducer.apply(state, control)
        state, block = reducer.advance(state)
        yield Tick(
            session_id=request.world,
            world=request.world,
            epoch=0,
            request_id=f"{request.world}-{index}",
            chunk_index=index,
            event_ids=(event.event_id,),
            prompt=prompt,
            controls=event.controls,
            conditioning={reducer.track: block},
        )


def _play(world: NativeWorld, tick: Tick, request: OpenWorld, encoder: ThreadPoolExecutor) -> _Running:
    began = time.perf_counter()
    chunk = world.begin_chunk(tick)
    for _ in chunk.forwards():
        pass
    frames = chunk.decode()
    decoded = time.perf_counter()
    assert isinstance(chunk, Chunk) and chunk.clean is not None, "an offline world shares no first chunks"
    latents = chunk.clean.float().cpu().numpy()
    first = frames_before(tick.chunk_index)
    media = encoder.submit(encode_chunk, frames, request.media, request.fps, first)
    chunk.write()
    world.commit()
    committed = time.perf_counter()
    return _Running(tick, media, latents, (decoded - began) * 1000, (committed - decoded) * 1000)


@dataclass(frozen=True, slots=True)
class _Running:
    tick: Tick
    media: Future[EncodedChunk]
    latents: NDArray[np.float32]
    compute_ms: float
    commit_ms: float

    def result(self) -> GeneratedChunk:
        return GeneratedChunk(self.tick, self.media.result(), self.latents, self.compute_ms, self.commit_ms)
