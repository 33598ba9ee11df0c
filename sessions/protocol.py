"""The rules of a session, without I/O: no async, clock, socket or randomness.

Events go in, ticks come out. Every mutation is preceded by a pure check that raises what the caller did
wrong, so that a refused call changes nothing. Ids of requests come from outside, and so do digests of events
that are no longer in memory (`knows_of` says when the journal has to be asked for one).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.api import Control, Reducer, Tick
from sessions import conditions
from sessions.conditions import Conditions, EventMarks
from sessions.entry import Entry, make_entry
from sessions.errors import EchoMismatch, WrongState
from sessions.event_queue import EventQueue
from sessions.events import Acceptance, Event
from sessions.facts import Origin
from sessions.flight import Flight
from sessions.standing import Standing
from sessions.state import SessionState, refusal


class SessionProtocol:
    """One session's state: what is pending, what is in force, which chunk is in flight.

    `prompt` and `script` are what the session opens with, and again after a reset that resumes; a fork
    opens with what its `origin` says.
    """

    def __init__(
        self,
        session_id: str,
        world: str,
        prompt: str,
        reducers: Mapping[str, Reducer],
        *,
        script: Control | None = None,
        origin: Origin | None = None,
        pending_limit: int = 32,
    ) -> None:
        self.session_id = session_id
        self.world = world
        self.state = SessionState.ACTIVE
        self.reason = ""
        self.epoch = 0
        self.chunk_index = origin.chunks if origin else 0
        self.flight: Flight | None = None
        self.resetting = False
        self._opening = (prompt, script)
        self._reducers = reducers
        self._queue = EventQueue(reducers, pending_limit, origin.floor if origin else 0)
        self._conditions = origin.conditions if origin else conditions.opening(prompt, script, reducers)

    # What is

    @property
    def floor(self) -> int:
        """Never-seen ids below it are stale."""
        return self.flight.floor if self.flight else self._queue.floor

    @property
    def next_event_id(self) -> int:
        """The integer after the highest known."""
        return max(self._queue.highest + 1, self.floor)

    @property
    def pending(self) -> tuple[int, ...]:
        """Accepted ids that no chunk has taken, sorted."""
        return self._queue.ids

    @property
    def conditions(self) -> Conditions:
        """What is in force, the chunk in flight not counted."""
        return self._conditions

    @property
    def waiting(self) -> bool:
        """Reset, and neither a prompt nor a reset that resumes has come since."""
        return self._conditions.prompt is None and not self._queue.prompted

    @property
    def scripted(self) -> bool:
        """Whether the script that the session opened with has more to play."""
        script = self._opening[1]
        return script is not None and self._conditions.driven_by(script, self._reducers)

    def is_current(self, tick: Tick) -> bool:
        """Whether this tick is in flight; it is not after a reset, rollback or failure."""
        return self.flight is not None and self.flight.tick is tick

    # Between chunks

    def standing(self) -> Standing | None:
        """What its future depends on; None while a chunk is in flight, and where it is not simply active."""
        if self.state is not SessionState.ACTIVE or self.flight is not None or self.resetting:
            return None
        queue = self._queue
        return Standing(
            self.epoch, self.chunk_index, queue.floor, queue.highest, queue.entries, self._conditions
        )

    def stand(self, standing: Standing) -> None:
        """Be, from its opening, where a session of the same opening stood."""
        self.epoch, self.chunk_index = standing.epoch, standing.chunk_index
        self._queue.stand(standing.floor, standing.highest, standing.pending)
        self._conditions = standing.conditions

    # Events

    def knows_of(self, event_id: int) -> bool:
        """Whether this id may have been taken before and left memory: then ask the journal for it."""
        return event_id <= self._queue.highest and self._in_memory(event_id) is None

    def judge(self, entry: Entry, known_digest: str | None = None) -> Acceptance:
        """What accepting this event would answer; changes nothing.

        `known_digest` is the journal's for its id.

        Raises `EventIdConflict`, `StaleEvent`, `QueueFull`, `InvalidControl`, or the state's refusal.
        """
        self.require_alive()
        taken = self._in_memory(entry.event.event_id)
        return self._queue.judge(entry, taken.digest if taken else known_digest, self.floor)

    def enqueue(self, entry: Entry) -> None:
        """Take an event that was judged acceptable: it waits for the next chunk."""
        self._queue.add(entry)

    def accept(self, event: Event, name: str | None = None, known_digest: str | None = None) -> Acceptance:
        """Freeze, judge and enqueue in one step."""
        entry = make_entry(event, name)
        acceptance = self.judge(entry, known_digest)
        if acceptance is Acceptance.ACCEPTED:
            self.enqueue(entry)
        return acceptance

    # Chunks

    def can_begin(self, event_ids: Collection[int] | None = None) -> bool:
        """Whether a chunk may begin now, with all pending events or with those of `event_ids`."""
        if self.state is not SessionState.ACTIVE or self.flight is not None or self.resetting:
            return False
        chosen = self._queue.chosen(event_ids)
        return self._conditions.prompt is not None or any(e.event.prompt is not None for e in chosen)

    def begin(self, request_id: str, event_ids: Collection[int] | None = None) -> Tick:
        """Snapshot the next chunk: all pending events (or those of `event_ids`), sorted, are applied to it.

        Raises `WrongState` where none can begin, or the state's refusal.
        """
        self._require_begin()
        entries = self._queue.chosen(event_ids)
        now = self._conditions.after(entries, self._reducers) if entries else self._conditions
        if now.prompt is None:
            raise WrongState("no prompt since the reset: send one, or reset with resume")
        after, conditioning = now.advanced(self._reducers)
        tick = Tick(
            session_id=self.session_id,
            world=self.world,
            epoch=self.epoch,
            request_id=request_id,
            chunk_index=self.chunk_index,
            event_ids=tuple([entry.event.event_id for entry in entries]),
            prompt=now.prompt,
            controls=now.controls,
            conditioning=conditioning,
        )
        floor = self._queue.floor_behind(entries)
        self.flight = Flight(tick, entries, after, floor, conditions.marks(self._conditions, after, entries))
        self._queue.remove(entries)
        return tick

    def ready(self, echo: Tick) -> EventMarks:
        """The chunk's pixels are here and may leave; raises `EchoMismatch` where they are another tick's."""
        flight = self._echoed(echo)
        flight.ready = True
        return flight.marks

    def show(self) -> None:
        """The chunk's pixels have left, and with them what its events did."""
        assert self.flight is not None and self.flight.ready, "a chunk is ready before it is shown"
        self.flight.shown = True

    def commit(self, echo: Tick) -> None:
        """The world has moved on, and so has the session; raises `EchoMismatch` as `ready` does."""
        flight = self._echoed(echo)
        assert flight.shown, "a chunk is shown before it is committed"
        self._conditions = flight.after
        self._queue.floor = flight.floor
        self.chunk_index += 1
        self.flight = None

    def can_cancel(self) -> bool:
        """Whether a chunk is in flight none of whose pixels may have left."""
        return self.flight is not None and not self.flight.ready

    def rollback(self) -> None:
        """Forget the chunk in flight as if it had never begun: its events are pending again."""
        assert self.can_cancel(), "only an unseen chunk is rolled back"
        self._drop_flight()

    def withhold(self) -> bool:
        """Forget the chunk in flight, of which nothing may leave: its events are pending again.

        False where its pixels have left.
        """
        if self.flight is None or self.flight.shown:
            return False
        self._drop_flight()
        return True

    # The session's own course

    def fail(self, reason: str) -> None:
        """The engine failed: until a reset, nothing but close is possible. No effect once it is closing."""
        self._drop_flight()
        self.resetting = False
        if self.state is SessionState.ACTIVE:
            self.state, self.reason = SessionState.FAILED, reason

    def can_reset(self) -> bool:
        """Whether it is alive, failed or not."""
        return self.state in (SessionState.ACTIVE, SessionState.FAILED)

    def reset(self, resume: bool = False) -> tuple[str, ...]:
        """Clear everything but the event ids; the labels of the pending events that are dropped.

        The epoch rises at once; no chunk begins before `reset_done`. Raises the state's refusal.
        """
        if not self.can_reset():
            self.require_alive()
        self._drop_flight()
        discarded = self._queue.clear()
        prompt, script = self._opening if resume else (None, None)
        self._conditions = conditions.opening(prompt, script, self._reducers)
        self.epoch += 1
        self.chunk_index = 0
        self.state, self.reason, self.resetting = SessionState.ACTIVE, "", True
        return discarded

    def reset_done(self) -> None:
        """The engine's world is back at its first frame."""
        self.resetting = False

    def reset_lost(self) -> None:
        """The reset is not in the journal: the next one that is begins the same epoch."""
        self.epoch -= 1

    def can_rewind(self, chunks: int) -> bool:
        """Whether it can go back to where so many chunks were committed; not while one is in flight."""
        idle = self.flight is None and not self.resetting
        return self.state is SessionState.ACTIVE and idle and 0 <= chunks <= self.chunk_index

    def rewind(self, chunks: int, conditions: Conditions) -> None:
        """Back to where so many chunks were committed, in the conditions of then; pending events stay."""
        assert self.can_rewind(chunks), "whether it can be rewound was asked before"
        self.epoch += 1
        self.chunk_index, self._conditions = chunks, conditions

    def suspend(self) -> None:
        """It lives on in its journal: this object is done."""
        assert self.state in (SessionState.ACTIVE, SessionState.FAILED), "only the living are suspended"
        self.state = SessionState.SUSPENDED

    def begin_close(self) -> None:
        """Closing: nothing else is possible from here on. Also how a tombstone's close is retried."""
        assert self.state is not SessionState.CLOSED, "closed is closed"
        self._drop_flight()
        self.state = SessionState.CLOSING

    def end_close(self, failure: str | None = None) -> None:
        """Closed; or, with a failure, a tombstone whose close may be retried."""
        assert self.state is SessionState.CLOSING, "close begins before it ends"
        self.state = SessionState.CLOSED if failure is None else SessionState.CLEANUP_FAILED
        self.reason = failure or self.reason

    # Parts

    def _in_memory(self, event_id: int) -> Entry | None:
        entry = self._queue.get(event_id)
        if entry is None and self.flight:
            return next((e for e in self.flight.entries if e.event.event_id == event_id), None)
        return entry

    def _drop_flight(self) -> None:
        flight, self.flight = self.flight, None
        if flight and not flight.shown:
            self._queue.put_back(flight.entries)

    def _echoed(self, echo: Tick) -> Flight:
        if self.flight is None or self.flight.tick != echo:
            asked = self.flight.tick.request_id if self.flight else "nothing"
            raise EchoMismatch(f"the engine answered {echo.request_id}, or changed it; asked was {asked}")
        return self.flight

    def _require_begin(self) -> None:
        self.require_alive()
        if self.flight is not None:
            raise WrongState(f"chunk {self.flight.tick.chunk_index} is still being computed")
        if self.resetting:
            raise WrongState("the session is being reset")

    def require_alive(self) -> None:
        """Raise the state's refusal unless it is active; see `refusal`."""
        if (error := refusal(self.state, self.session_id, self.reason)) is not None:
            raise error
