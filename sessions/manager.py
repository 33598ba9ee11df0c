"""All sessions of one server."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping

from engine.api import Engine, ModelCard, Reducer
from sessions.admission import Admission, Told
from sessions.archive import Archive
from sessions.background import Background
from sessions.clock import Clock, MonotonicClock
from sessions.closing import Closing
from sessions.entrance import Entrance
from sessions.gate import Gate
from sessions.info import SessionInfo
from sessions.journal import Journal
from sessions.lifetimes import Lifetimes
from sessions.limits import Limits
from sessions.making import Making
from sessions.observer import Observer
from sessions.opener import Opener
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
from sessions.usage import Usage
from sessions.waking import Waking

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
        self._engine = engine
        self._journal = journal
        self._reducers = reducers
        self._clock = clock or MonotonicClock()
        self._limits = limits or Limits()
        self._observer = observer or Observer()
        self._snapshots = snapshots
        self._recordings = recordings
        self._archive = Archive(journal, snapshots, reducers, self._limits.pending_events)
        self._register = Register(self._limits, Sleepers(self._archive, self._clock, self._observer))
        self._admission = Admission(self._clock, self._limits, self._observer, self._may_have_room)
        self._usage = usage or Usage()
        self._meter = Meter(self._limits.quotas, self._clock, self._usage)
        self._register.on_gone = self._admission.changed
        self._closing = Closing(self._register, journal, snapshots)
        self._background = Background()
        self._gate = Gate(engine)
        entrance = Entrance(self._register, self._admission, self._meter)
        opener = Opener(self._register, self._desert)
        self._waking = Waking(self._gate, self._register, entrance, opener, self._clock)
        self._making = Making(self._gate, self._register, entrance, opener, self._clock, self._abandon)
        self._pruning = Pruning(self._observer)
        self._lifetimes = Lifetimes(
            self._clock,
            self._limits,
            lambda: list(self._register.live.values()),
            self._register.sleepers.all,
            lambda session: self._background.spawn(session.suspend("idle")),
            lambda session_id: self._background.spawn(self._expire(session_id)),
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
        card = await self._engine.start()
        self._gate.open(self._services(card))
        return card

    @property
    def card(self) -> ModelCard | None:
        """Of the model; None until the engine is ready."""
        return self._gate.card

    @property
    def _stores(self) -> list[SnapshotStore | RecordingStore]:
        return [store for store in (self._snapshots, self._recordings) if store is not None]

    async def create(self, spec: SessionSpec, told: Told | None = None) -> Session:
        """Open a world and its session; durable when this returns.

        Where all are busy, `told` hears of the position in line, and this waits. Raises `InvalidSpec`,
        `InvalidControl` (the script), `SessionExists`, `SessionTombstoned`, `CapacityExceeded`,
        `EngineUnavailable`, `JournalError`, `Draining`; then nothing is left of it.
        """
        return await self._making.create(spec, told)

    async def fork(self, source_id: str, spec: SessionSpec, at_chunk: int | None = None) -> Session:
        """A session that shares the history of another up to a chunk: after `at_chunk` of them (None: all).

        Of `spec`, the id, the owner and the token digest count: all else is the other's. Raises
        `UnknownSession`, `NoSuchChunk`, and what `create` does.
        """
        asked_at = self._clock.now()
        source = await self.awake(source_id, owner=spec.owner)
        return await self._making.fork(source, spec, at_chunk, asked_at)

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
        return await self._waking.ready(session_id, told, replay_after, owner)

    async def awake(
        self, session_id: str, replay_after: int | None = None, owner: str | None = None
    ) -> Session:
        """The session; a suspended one is revived: its world comes back at its next chunk.

        `replay_after`: the world comes back now, and chunks behind this transport index are put on the tape
        again. Raises what `get` does, `CapacityExceeded`, `Draining`, `JournalError`, and what bringing back
        the world does.
        """
        return await self._waking.awake(session_id, replay_after, owner)

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
        await self._closing.close(session_id, reason)

    async def stop(self, reason: str = "shutdown") -> None:
        """Take no new sessions, suspend all, stop engine, stores and journal; idempotent.

        An engine that holds this up for too long is stopped first: the journal has the sessions all the same.
        """
        self._gate.shut()
        self._admission.close()
        self._lifetimes.stop()
        emptying = asyncio.create_task(self._put_all_away(reason))
        _, late = await asyncio.wait({emptying}, timeout=self._limits.stop_s)
        if late:
            log.warning("not all sessions were put away in %g s: the engine is stopped", self._limits.stop_s)
        await self._engine.stop()
        await emptying
        for store in self._stores:
            await store.stop()
        await self._usage.stop()
        await self._journal.stop()

    async def _put_all_away(self, reason: str) -> None:
        register = self._register
        on_their_way = [*register.opening.values(), *register.waking.values(), *register.closing.values()]
        await asyncio.gather(*on_their_way, return_exceptions=True)
        ending = [self._end(session, reason) for session in register.live.values()]
        for failure in await asyncio.gather(*ending, return_exceptions=True):
            if failure is not None:
                log.warning("a session could not be suspended at the end: %s", failure)
        await self._background.ended()

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

    def _may_have_room(self) -> bool:
        """Whether the engine has room for another world, as far as their number says, or could have it."""
        free = self.card is None or self._engine.status().worlds < self.card.capacity
        return free or any(session.evictable for session in self._register.live.values())

    @property
    def line(self) -> Admission:
        """Who waits for room."""
        return self._admission

    # Parts

    def _services(self, card: ModelCard) -> Services:
        """What every session shares with the others."""
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
            self._archive,
            self._snapshots,
            self._recordings,
        )

    async def _expire(self, session_id: str) -> None:
        """It is too old."""
        if (session := self._register.live.get(session_id)) is not None:
            session.expire()
        await self.close(session_id, "expired")

    def _abandon(self, session: Session) -> None:
        """Whoever asked for it had gone when it was there."""
        self._background.spawn(session.close("abandoned"))

    def _desert(self, session: Session) -> None:
        """Who played it did not come back."""
        if self._limits.suspends:
            self._background.spawn(session.suspend("disconnected"))
        else:
            self._background.spawn(session.close("disconnected"))


def new_id() -> str:
    """An id that no one can guess or meet again."""
    return secrets.token_hex(16)
