"""All sessions of one server."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from engine.api import Engine, EngineState, ModelCard, Reducer
from sessions.admission import Admission, Told
from sessions.archive import Archive
from sessions.clock import Clock, MonotonicClock
from sessions.epochs import Fork
from sessions.errors import (
    Draining,
    EngineUnavailable,
    StorageUnavailable,
    UnknownSession,
)
from sessions.info import SessionInfo
from sessions.journal import Journal
from sessions.lifetimes import Lifetimes
from sessions.limits import Limits
from sessions.observer import Observer
from sessions.opener import Opener, checked_spec
from sessions.pruning import Pruning
from sessions.quotas import Meter
from sessions.recordings import RecordingStore
from sessions.register import Register
from sessions.services import Services
from sessions.session import Session
from sessions.sleepers import Sleepers
from sessions.snapshots import Pruned, SnapshotStore
from sessions.spec import SessionSpec
from sessions.state import SessionState
from sessions.tasks import outlasting
from sessions.usage import Usage

log = logging.getLogger(__name__)


class SessionManager:
    """Creates, finds, suspends and closes sessions. `reducers` maps a control track to its reducer.

    Sessions outlive the manager: those that it did not close are suspended, and the next one over the same
    journal wakes them when they are used. Without `snapshots` that takes every chunk of theirs again.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        reducers: Mapping[str, Reducer],
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        observer: Observer | None = None,
        snapshots: SnapshotStore | None = None,
        recordings: RecordingStore | None = None,
        usage: Usage | None = None,
    ) -> None:
        self.card: ModelCard | None = None  # None until the engine is ready
        self._engine = engine
        self._journal = journal
        self._reducers = reducers
        self._clock = clock or MonotonicClock()
        self._limits = limits or Limits()
        self._observer = observer or Observer()
        self._snapshots = snapshots
        self._recordings = recordings
        archive = Archive(journal, snapshots, reducers, self._limits.pending_events)
        self._register = Register(self._limits, Sleepers(archive, self._clock, self._observer))
        self._admission = Admission(self._clock, self._limits, self._observer)
        self._usage = usage or Usage()
        self._meter = Meter(self._limits.quotas, self._clock, self._usage)
        self._register.on_gone = self._admission.changed
        self._opener = Opener(self._register, self._desert)
        self._pruning = Pruning(self._observer)
        self._background: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._lifetimes = Lifetimes(
            self._clock,
            self._limits,
            lambda: list(self._register.live.values()),
            self._register.sleepers.all,
            lambda session: self._spawn(session.suspend("idle")),
            lambda session_id: self._spawn(self._expire(session_id)),
        )

    async def start(self) -> ModelCard:
        """Open the journal and the stores, and start the engine (may take minutes).

        Raises `JournalError`, `StorageUnavailable`, `EngineError`.
        """
        await self._journal.start()
        for store in self._stores:
            store.tell(self._pruning.hear)
            await store.start()
        await self._usage.start()
        await self._register.sleepers.start()
        self._lifetimes.start()
        self.card = await self._engine.start()
        return self.card

    @property
    def _stores(self) -> list[SnapshotStore | RecordingStore]:
        return [store for store in (self._snapshots, self._recordings) if store is not None]

    async def create(self, spec: SessionSpec, told: Told | None = None) -> Session:
        """Open a world and its session; durable when this returns.

        Where all are busy, `told` hears of the position in line, and this waits. Raises `InvalidSpec`,
        `InvalidControl` (the script), `SessionExists`, `SessionTombstoned`, `CapacityExceeded`,
        `EngineUnavailable`, `JournalError`, `Draining`; then nothing is left of it.
        """
        asked_at = self._clock.now()
        self._services()
        spec = checked_spec(spec, self._reducers)
        session_id = self._free_id(spec.session_id)

        async def attempt() -> Session:
            services = self._services()
            self._free_id(session_id)
            return await self._opened(session_id, self._opener.open(services, session_id, spec, asked_at))

        with self._metered(spec.owner, session_id):
            return await self._admission.enter(spec.owner, attempt, told)

    async def fork(self, source_id: str, spec: SessionSpec, at_chunk: int | None = None) -> Session:
        """A session that shares the history of another up to a chunk: after `at_chunk` of them (None: all).

        Of `spec`, the id, the owner and the token digest count: all else is the other's. Raises
        `UnknownSession`, `NoSuchChunk`, and what `create` does.
        """
        asked_at = self._clock.now()
        source = await self.awake(source_id, owner=spec.owner)
        services = self._services()
        session_id = self._free_id(spec.session_id)

        async def attempt() -> Session:
            self._free_id(session_id)
            return await self._opened(session_id, source.fork(at_chunk, make))

        async def make(fork: Fork) -> Session:
            mine = replace(fork.spec, session_id=session_id, owner=spec.owner, token_digest=spec.token_digest)
            return await self._opener.open(services, session_id, mine, asked_at, fork)

        with self._metered(spec.owner, session_id):
            return await self._admission.enter(spec.owner, attempt)

    async def _opened(self, session_id: str, work: Coroutine[Any, Any, Session]) -> Session:
        opening = asyncio.create_task(work)
        self._register.opening[session_id] = opening
        opening.add_done_callback(lambda _: self._register.opening.pop(session_id))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_unwanted)
            raise

    def get(self, session_id: str) -> Session:
        """The live (or failed, or tombstoned) session.

        Raises `SessionSuspended` where it has to be `awake` first, `SessionClosed`, `UnknownSession`.
        """
        return self._register.get(session_id)

    async def ready(
        self, session_id: str, told: Told, replay_after: int | None = None, owner: str | None = None
    ) -> Session:
        """The session with its world, for a stream: as `awake`, but where all are busy this waits for room.

        `told` hears of the position in line meanwhile, among those of `owner`.
        """

        async def attempt() -> Session:
            session = await self._awake(session_id, replay_after)
            if session.away:
                await session.revive(replay_after)
            return session

        session = self._register.live.get(session_id)
        if session is not None:
            if session.away:
                return await self._admission.enter(owner, attempt, told)
            return await self._awake(session_id, replay_after)
        with self._metered(owner, session_id, new=False):
            return await self._admission.enter(owner, attempt, told)

    async def awake(
        self, session_id: str, replay_after: int | None = None, owner: str | None = None
    ) -> Session:
        """The session; a suspended one is revived: its world comes back at its next chunk.

        `replay_after`: the world comes back now, and chunks behind this transport index are put on the tape
        again. Raises what `get` does, `CapacityExceeded`, `Draining`, `JournalError`, and what bringing back
        the world does.
        """
        if not self._register.asleep(session_id):
            return await self._awake(session_id, replay_after)
        with self._metered(owner, session_id, new=False):
            return await self._admission.enter(owner, lambda: self._awake(session_id, replay_after))

    async def _awake(self, session_id: str, replay_after: int | None) -> Session:
        register = self._register
        if (live := register.live.get(session_id)) is not None:
            await live.settled()
        if (closing := register.closing.get(session_id)) is not None:
            await asyncio.wait([closing])
        if register.asleep(session_id):
            waking = register.waking.get(session_id)
            if waking is None:
                waking = asyncio.create_task(self._wake(session_id, replay_after))
                register.waking[session_id] = waking
                waking.add_done_callback(lambda _: register.waking.pop(session_id))
            await outlasting(waking)
        return register.get(session_id)

    async def info(self, session_id: str) -> SessionInfo:
        """Where a session stands; a suspended one sleeps on. Raises `SessionClosed`, `UnknownSession`."""
        return await self._register.info(session_id)

    def pruned(self, world: str) -> tuple[Pruned, ...]:
        """What was taken from a session instance for want of room on the disk, since this server started."""
        return self._pruning.of(world)

    async def list(
        self,
        *,
        state: SessionState | None = None,
        owner: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[SessionInfo]:
        """Sessions in the order of their ids, beyond the id `after`."""
        return await self._register.list(state, owner, after, limit)

    async def close(self, session_id: str, reason: str = "closed") -> None:
        """Close a session; idempotent. Raises `UnknownSession`, `SessionTombstoned`, `JournalError`."""
        register = self._register
        while (waking := register.waking.get(session_id)) is not None:
            await asyncio.wait([waking])
        session = register.live.get(session_id)
        if session is not None:
            await session.close(reason)
            await session.settled()
        if register.asleep(session_id):  # perhaps since just now: a suspension may be too far gone to stop
            await self._close_asleep(session_id, reason)
        elif (
            session is None
            and not register.closed_lately(session_id)
            and await self._journal.latest(session_id) is None
        ):
            raise UnknownSession(session_id)

    async def _close_asleep(self, session_id: str, reason: str) -> None:
        """Once, whoever else asks for it meanwhile; who would wake it waits."""
        closing = self._register.closing
        if session_id not in closing:
            closing[session_id] = asyncio.create_task(self._end_asleep(session_id, reason))
            closing[session_id].add_done_callback(lambda _: closing.pop(session_id))
        await outlasting(closing[session_id])

    async def _end_asleep(self, session_id: str, reason: str) -> None:
        sleepers = self._register.sleepers
        world = sleepers.world_of(session_id)
        await sleepers.close(session_id, reason)
        self._register.remember(session_id)
        await self._discard(world)

    async def stop(self, reason: str = "shutdown") -> None:
        """Take no new sessions, suspend all, stop engine, stores and journal; idempotent."""
        self._stopping = True
        self._admission.close()
        self._lifetimes.stop()
        register = self._register
        coming = [*register.opening.values(), *register.waking.values()]
        await asyncio.gather(*coming, return_exceptions=True)
        ending = [self._end(session, reason) for session in register.live.values()]
        for failure in await asyncio.gather(*ending, return_exceptions=True):
            if failure is not None:
                log.warning("a session could not be suspended at the end: %s", failure)
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._engine.stop()
        for store in self._stores:
            await store.stop()
        await self._usage.stop()
        await self._journal.stop()

    async def _end(self, session: Session, reason: str) -> None:
        if session.info().state in (SessionState.CLEANUP_FAILED, SessionState.CLOSING):
            await session.close(reason)
        else:
            await session.suspend(reason)

    @property
    def awake_count(self) -> int:
        """Sessions in memory: all but the suspended ones."""
        return len(self._register.live)

    @property
    def stuck(self) -> bool:
        """Whether sessions that could not be closed hold all the room there is."""
        if self.card is None:
            return False
        states = [session.info().state for session in self._register.live.values()]
        room = min(self.card.capacity, self._limits.sessions)
        return states.count(SessionState.CLEANUP_FAILED) >= room

    @property
    def line(self) -> Admission:
        """Who waits for room."""
        return self._admission

    # Opening

    def _services(self) -> Services:
        """What a session shares with the others; raises where none can be opened now."""
        if self._stopping:
            raise Draining("the service is shutting down")
        status = self._engine.status()
        if self.card is None or status.state is not EngineState.READY:
            raise EngineUnavailable(f"the engine is {status.state}: {status.reason or 'try again'}")
        return self._shared(self.card)

    def _shared(self, card: ModelCard) -> Services:
        return Services(
            self._engine,
            card,
            self._journal,
            self._reducers,
            self._clock,
            self._limits,
            self._observer,
            new_id,
            self._register.make_room,
            self._admission,
            self._meter,
            self._snapshots,
            self._recordings,
        )

    def _free_id(self, asked: str | None) -> str:
        return new_id() if asked is None else self._register.free_id(asked)

    async def _wake(self, session_id: str, replay_after: int | None) -> Session:
        asked_at = self._clock.now()
        if self._stopping:
            raise Draining("the service is shutting down")
        if self.card is None:
            raise EngineUnavailable(self._engine.status().reason or "the engine is starting")
        return await self._opener.wake(self._shared(self.card), session_id, asked_at, replay_after)

    def _metered(self, owner: str | None, session_id: str, new: bool = True) -> AbstractContextManager[None]:
        """While a session of this owner comes. Raises `QuotaExceeded`, `QuotaSpent`."""
        live = self._register.live.values()
        in_memory = [session.session_id for session in live if session.spec.owner == owner]
        return self._meter.entering(owner, session_id, in_memory, new)

    async def _expire(self, session_id: str) -> None:
        """It is too old."""
        if (session := self._register.live.get(session_id)) is not None:
            session.expire()
        await self.close(session_id, "expired")

    def _close_unwanted(self, opening: asyncio.Task[Session]) -> None:
        """Whoever asked for the session has gone."""
        if not opening.cancelled() and opening.exception() is None:
            self._spawn(opening.result().close("abandoned"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            log.error("a session could not be put away: %s", failure)

    def _desert(self, session: Session) -> None:
        """Who played it did not come back."""
        if self._limits.suspends:
            self._spawn(session.suspend("disconnected"))
        else:
            self._spawn(session.close("disconnected"))

    async def _discard(self, world: str) -> None:
        if self._snapshots is not None:
            try:
                await self._snapshots.discard(world)
            except StorageUnavailable as error:
                log.warning("old snapshots of %s were not removed: %s", world, error)


def new_id() -> str:
    """An id that no one can guess or meet again."""
    return secrets.token_hex(16)
