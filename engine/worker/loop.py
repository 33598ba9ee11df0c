"""The worker's loop: one job at a time on the device's thread, encoding on a thread beside it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.api import (
    ChunkCancelled,
    ChunkFailed,
    EncodedChunk,
    EngineError,
    ModelCard,
    WorldSnapshot,
)
from engine.media.chunk import encode_chunk
from engine.worker.beside import Beside
from engine.worker.flight import Flight
from engine.worker.host import Host, HostChunk
from engine.worker.messages import (
    Answer,
    Cancel,
    Close,
    Committed,
    Done,
    Failed,
    Fork,
    Inspect,
    Inspected,
    Open,
    Ready,
    Request,
    Reset,
    Restore,
    Run,
    Snapshot,
    Stop,
    Taken,
    Usage,
)
from engine.worker.rooms import Rooms, describe
from engine.worker.schedule import Job, Schedule

log = logging.getLogger(__name__)


Encode = Callable[[NDArray[np.uint8], Literal["h264", "jpeg"], int, int], EncodedChunk]
"""`engine.media.chunk.encode_chunk`, or what a test puts in its place."""


class WorkerLoop:
    """Runs requests against a loaded host.

    A chunk runs in two turns of the device's thread. The first computes and decodes it, and writes its K/V
    while the frames are encoded beside: pixels wait for no commit pass. When they were handed on, the second
    commits it, before any other work. A chunk that is cancelled before, or fails anywhere, is rolled back.
    """

    def __init__(
        self,
        host: Host,
        card: ModelCard,
        send: Callable[[Answer], None],
        encode: Encode = encode_chunk,
    ) -> None:
        self._host = host
        self._card = card
        self._send = send
        self._encode = encode
        self._rooms = Rooms(host)
        self._usage = Usage()
        self._encoder = Beside("encoder")
        self._changed = threading.Condition()  # guards all that follows
        self._schedule = Schedule()
        self._chunks: dict[int, Job] = {}  # until their pixels have left
        self._encoded: deque[Flight] = deque()
        self._stopped = False

    def receive(self, request: Request) -> None:
        """Take a request; from any thread, while the model computes."""
        with self._changed:
            match request:
                case Cancel(call=call):
                    self._cancel(call)
                case Stop():
                    self._stopped = True
                case _:
                    job = Job(request, time.monotonic())
                    if isinstance(request, Close):
                        self._cancel_world(request.world)
                    if isinstance(request, Run):
                        self._chunks[request.call] = job
                    self._schedule.add(job)
            self._changed.notify()

    def run(self) -> None:
        """Work until a `Stop` was received; then release every world."""
        self._encoder.start()
        try:
            while (work := self._next()) is not None:
                if isinstance(work, Flight):
                    self._finish(work)
                else:
                    self._begin(work)
        finally:
            self._encoder.finish()
            self._rooms.close_all()

    def _next(self) -> Flight | Job | None:
        with self._changed:
            while not self._stopped:
                if self._encoded:
                    return self._encoded.popleft()
                job = self._schedule.take(time.monotonic())
                if job is not None:
                    return job
                self._changed.wait()
            return None

    def _begin(self, job: Job) -> None:
        try:
            match job.request:
                case Run():
                    self._compute(Flight(job, job.request.call, job.request.tick, self._rooms[job.world]))
                    return
                case Snapshot(call=call, world=world):
                    self._encoder.submit(partial(self._pack, call, world, *self._rooms.snapshot(world)))
                    self._end(job)
                    return
                case Inspect(call=call, world=world):
                    self._end(job, Inspected(call, self._rooms.ledger(world)))
                    return
                case Open(request=request):
                    self._rooms.open(request)
                case Restore(request=request, snapshot=snapshot):
                    self._rooms.restore(request, snapshot)
                case Fork(world=source, request=request):
                    self._rooms.fork(source, request)
                case Reset(world=world):
                    self._rooms.reset(world)
                case Close(world=world):
                    self._rooms.close(world)
        except EngineError as error:
            if error.__cause__ is not None:
                log.error("%s", error, exc_info=error.__cause__)
            self._end(job, Failed(job.request.call, error))
        else:
            self._end(job, Done(job.request.call))

    def _pack(self, call: int, world: str, chunks: int, pack: Callable[[], bytes]) -> None:
        """On the encoder's thread: a world's copy becomes a file, while the device goes on."""
        try:
            answer: Answer = Taken(call, WorldSnapshot(world, chunks, pack()))
        except Exception as error:
            log.exception("the snapshot of world %s could not be packed", world)
            answer = Failed(call, EngineError(f"world {world} could not be packed: {describe(error)}"))
        self._send(answer)

    def _compute(self, flight: Flight) -> None:
        """First turn: compute, decode, give the frames to the encoder, write the K/V."""
        flight.add("queue", time.monotonic() - flight.job.arrived)
        try:
            chunk, frames = self._frames(flight)
        except EngineError as error:
            flight.fail(error)
            self._finish(flight)
            return
        self._encoder.submit(partial(self._hand_on, flight, frames, time.perf_counter()))
        try:
            with flight.stage("commit"):
                chunk.write()
        except EngineError as error:
            with self._changed:
                flight.fail(error)

    def _frames(self, flight: Flight) -> tuple[HostChunk, NDArray[np.uint8]]:
        world, tick = flight.room.world, flight.tick
        if tick.chunk_index != world.chunks:
            raise ChunkFailed(f"chunk {tick.chunk_index} was asked for; the next one is {world.chunks}")
        with flight.stage("denoise"):
            self._check(flight)
            chunk = world.begin_chunk(tick)
            for _ in chunk.forwards():
                self._check(flight)
        with flight.stage("decode"):
            frames = chunk.decode()
        self._check(flight)
        return chunk, frames

    def _check(self, flight: Flight) -> None:
        if flight.error is not None:
            raise flight.error
        if flight.job.cancelled:
            raise ChunkCancelled(f"chunk {flight.tick.chunk_index} was cancelled")

    def _hand_on(self, flight: Flight, frames: NDArray[np.uint8], decoded: float) -> None:
        """On the encoder's thread: encode, let the pixels leave, give the chunk back to the device's."""
        request, first_frame = flight.room.request, self._first_frame(flight.tick.chunk_index)
        try:
            with flight.stage("encode", decoded):
                media = self._encode(frames, request.media, request.fps, first_frame)
            with self._changed:
                self._check(flight)
                del self._chunks[flight.call]  # from here on it can't be cancelled
            self._send(Ready(flight.call, flight.tick.request_id, media, flight.times()))
        except EngineError as error:
            with self._changed:
                flight.fail(error)
        with self._changed:
            self._encoded.append(flight)
            self._changed.notify()

    def _first_frame(self, chunk_index: int) -> int:
        if chunk_index == 0:
            return 0
        return self._card.first_chunk_frames + (chunk_index - 1) * self._card.chunk_frames

    def _finish(self, flight: Flight) -> None:
        """Second turn: commit what has left, roll back what has not."""
        world = flight.room.world
        if flight.error is None:
            try:
                with flight.stage("commit"):
                    world.commit()
            except EngineError as error:
                flight.fail(error)
        if flight.error is not None:
            self._end(flight.job, Failed(flight.call, self._roll_back(flight, flight.error)))
            return
        committed = Committed(flight.call, flight.tick.request_id, flight.milliseconds["commit"])
        self._end(flight.job, committed)

    def _roll_back(self, flight: Flight, error: EngineError) -> EngineError:
        """What the client is told: `error`, or that even the rollback failed."""
        if isinstance(error, ChunkFailed):
            log.error("world %s: %s", flight.tick.world, error, exc_info=error.__cause__)
        try:
            flight.room.world.rollback()
        except Exception as failure:
            log.exception("rolling back world %s failed", flight.tick.world)
            return ChunkFailed(f"{error}; the rollback failed too: {describe(failure)}")
        return error

    def _end(self, job: Job, answer: Answer | None = None) -> None:
        """The job is over: whoever asked is told, if not later, and its world may take its next turn."""
        usage = self._host.usage()
        if usage != self._usage:
            self._usage = usage
            self._send(usage)
        if answer is not None:
            self._send(answer)
        with self._changed:
            self._chunks.pop(job.request.call, None)
            self._schedule.release(job.world, gone=job.world not in self._rooms)

    def _cancel(self, call: int) -> None:
        job = self._chunks.get(call)
        if job is None:
            return
        job.cancelled = True
        if self._schedule.withdraw(job):
            del self._chunks[call]
            self._send(Failed(call, ChunkCancelled("the chunk was cancelled before it began")))

    def _cancel_world(self, world: str) -> None:
        for call, job in tuple(self._chunks.items()):
            if job.world == world:
                self._cancel(call)
