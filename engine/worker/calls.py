"""The server's side of every call to a worker, whatever carries the messages."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from engine.api import (
    ChunkCommitted,
    ChunkReady,
    CloseFailed,
    EngineError,
    EngineLost,
    EngineState,
    EngineStatus,
    OpenWorld,
    Tick,
    WorldLedger,
    WorldSnapshot,
)
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
    JobRequest,
    Open,
    Ready,
    Request,
    Reset,
    Restore,
    Run,
    Snapshot,
    Taken,
    Usage,
)

CONTROL_TIMEOUT_S = 30.0

Told = Done | Taken | Inspected
"""How a call other than a chunk's ends well."""


@dataclass(slots=True, eq=False)
class _Call:
    """A request that was sent, and the answers to it that nobody took yet. One reader waits at a time."""

    request: JobRequest
    answers: deque[Told | Ready | Committed | Failed] = field(default_factory=deque)
    _waiting: asyncio.Future[None] | None = None

    def put(self, answer: Told | Ready | Committed | Failed) -> None:
        """An answer is here."""
        self.answers.append(answer)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def get(self) -> Told | Ready | Committed | Failed:
        """The next answer."""
        while not self.answers:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self.answers.popleft()


class Calls:
    """Pairs requests with answers. Used on one event loop; `send` and `deliver` never block it."""

    def __init__(self, send: Callable[[Request], None], timeout_s: float = CONTROL_TIMEOUT_S) -> None:
        self.worlds: set[str] = set()
        self.usage = Usage()
        self._send = send
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Call] = {}
        self._lost: str | None = "the worker has not started"
        self._fallen: dict[str, str] = {}  # worlds that went with a worker, until they are closed
        self._unwanted: dict[int, str] = {}  # worlds that are being made, though their callers have gone

    def connect(self) -> None:
        """A worker listens now."""
        self._lost = None

    def lose(self, reason: str) -> None:
        """The worker is gone: `EngineLost` for every waiter, and for whoever asks for its worlds later."""
        self._lost = reason
        self._fallen |= dict.fromkeys(self.worlds, reason)
        self.worlds.clear()
        self._unwanted.clear()
        self.usage = Usage(0, self.usage.pages_total)
        for number, call in self._pending.items():
            call.put(Failed(number, EngineLost(reason)))

    def deliver(self, answer: Answer) -> None:
        """Take what the worker sent."""
        match answer:
            case Usage():
                self.usage = answer
            case Done() | Taken() | Inspected() | Ready() | Committed() | Failed():
                call = self._pending.get(answer.call)  # absent where its caller has given up
                if call is not None:
                    call.put(answer)
                unwanted = self._unwanted.pop(answer.call, None)
                if unwanted is not None and isinstance(answer, Done):
                    self._send(Close(next(self._numbers), unwanted))
            case _:
                raise AssertionError(f"{answer} answers no call")

    def status(self, state: EngineState) -> EngineStatus:
        """Where the engine stands, in a state that its owner knows."""
        return EngineStatus(
            state=state,
            reason=self._lost or "",
            worlds=len(self.worlds),
            queue_depth=sum(isinstance(call.request, Run) for call in self._pending.values()),
            pages_in_use=self.usage.pages_in_use,
            pages_total=self.usage.pages_total,
        )

    async def open(self, request: OpenWorld) -> None:
        """Make a world."""
        await self._make(Open(next(self._numbers), request))

    async def restore(self, request: OpenWorld, snapshot: bytes) -> None:
        """Make a world from a snapshot."""
        await self._make(Restore(next(self._numbers), request, snapshot))

    async def fork(self, source: str, request: OpenWorld) -> None:
        """Make a world from another one."""
        await self._make(Fork(next(self._numbers), source, request))

    async def snapshot(self, world: str) -> WorldSnapshot:
        """Copy a world. Raises `EngineError` with what is pending where it takes too long."""
        answer = await self._control("snapshot", Snapshot(next(self._numbers), world))
        assert isinstance(answer, Taken)
        return answer.snapshot

    async def read_ledger(self, world: str) -> WorldLedger:
        """What a world's caches hold. Raises `EngineError` with what is pending where it takes too long."""
        answer = await self._control("ledger", Inspect(next(self._numbers), world))
        assert isinstance(answer, Inspected)
        return answer.ledger

    async def reset(self, world: str) -> None:
        """Back to the first frame. Raises `EngineError` with what is pending where it takes too long."""
        await self._control("reset", Reset(next(self._numbers), world))

    async def close(self, world: str) -> None:
        """Release a world; what a lost worker held is released already."""
        try:
            await self._answer(self._begin(Close(next(self._numbers), world)), self._timeout_s)
        except EngineLost:
            self._fallen.pop(world, None)
        except TimeoutError:
            raise CloseFailed(self._overdue("close", world)) from None
        self.worlds.discard(world)

    def cancel(self, world: str) -> None:
        """Ask that the world's chunks be rolled back; the callers of `run` learn of it."""
        for number, call in self._pending.items():
            if isinstance(call.request, Run) and call.request.world == world:
                self._send(Cancel(number))

    async def run(self, tick: Tick, slack_s: float | None) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        """Compute a chunk; a caller who leaves early cancels it."""
        number = next(self._numbers)
        call = self._begin(Run(number, tick, slack_s))
        over = False
        try:
            while not over:
                match await call.get():
                    case Ready() as ready:
                        yield ChunkReady(_echoed(tick, ready.request_id), ready.media, ready.times)
                    case Committed() as committed:
                        over = True
                        yield ChunkCommitted(_echoed(tick, committed.request_id), committed.commit_ms)
                    case Failed(error=error):
                        over = True
                        raise error
        finally:
            del self._pending[number]
            if not over and self._lost is None:
                self._send(Cancel(number))

    async def _make(self, request: Open | Restore | Fork) -> None:
        """A caller who leaves gets no world: it is closed as soon as it was made."""
        call = self._begin(request)
        try:
            await self._answer(call, timeout_s=None)
        except asyncio.CancelledError:
            if self._lost is None:
                self._abandon(call, request.request.world)
            raise
        self.worlds.add(request.request.world)

    def _abandon(self, call: _Call, world: str) -> None:
        """Nobody will ever use the world. A fork waits in its source's line, where a close would not meet it:
        so it is closed once its answer is here.
        """
        if not call.answers:
            self._unwanted[call.request.call] = world
        elif isinstance(call.answers.popleft(), Done):
            self._send(Close(next(self._numbers), world))

    async def _control(self, action: str, request: JobRequest) -> Told:
        try:
            return await self._answer(self._begin(request), self._timeout_s)
        except TimeoutError:
            raise EngineError(self._overdue(action, request.world)) from None

    async def _answer(self, call: _Call, timeout_s: float | None) -> Told:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await call.get()
        finally:
            del self._pending[call.request.call]
        if isinstance(answer, Failed):
            raise answer.error
        assert isinstance(answer, Told)
        return answer

    def _begin(self, request: JobRequest) -> _Call:
        reason = self._lost or self._fallen.get(request.world)
        if reason is not None:
            raise EngineLost(reason)
        call = self._pending[request.call] = _Call(request)
        self._send(request)
        return call

    def _overdue(self, action: str, world: str) -> str:
        pending = [_describe(call.request) for call in self._pending.values() if call.request.world == world]
        waits = f"; pending: {', '.join(pending)}" if pending else ""
        return f"{action} of world {world} took more than {self._timeout_s:g} s{waits}"


def _echoed(tick: Tick, request_id: str) -> Tick:
    """The tick that a worker's answer is to: where it is not the one that was asked, the caller sees it."""
    return tick if request_id == tick.request_id else replace(tick, request_id=request_id)


def _describe(request: JobRequest) -> str:
    return f"chunk {request.tick.chunk_index}" if isinstance(request, Run) else type(request).__name__.lower()
