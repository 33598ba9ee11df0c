"""The protocol against a plain model of its rules, in random orders."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from session_fixtures import REDUCERS, keys

from sessions.entry import make_entry
from sessions.errors import EventIdConflict, QueueFull, StaleEvent
from sessions.events import Acceptance, Event
from sessions.protocol import SessionProtocol
from sessions.state import SessionState

PROMPTS = ("rain", "snow", "fog")


class Rules(RuleBasedStateMachine):
    """Remembers everything; the protocol may not. `known` stands for the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol = SessionProtocol("s", "w", "a meadow", REDUCERS, pending_limit=4)
        self.known: dict[int, Event] = {}
        self.pending: set[int] = set()
        self.flight: set[int] | None = None
        self.ready = False
        self.floor = 0
        self.prompt: str | None = "a meadow"
        self.keys: tuple[str, ...] = ()
        self.blocks = 0
        self.committed: list[tuple[int, ...]] = []
        self.epoch = 0

    @property
    def floor_now(self) -> int:
        return max([self.floor, *(event_id + 1 for event_id in self.flight or ())])

    @rule(
        event_id=st.integers(0, 12),
        prompt=st.none() | st.sampled_from(PROMPTS),
        pressed=st.sampled_from(["w", "a", "d"]),
    )
    def an_event_comes(self, event_id: int, prompt: str | None, pressed: str) -> None:
        event = Event(event_id, prompt, (keys(pressed),))
        known = self.known.get(event_id)
        asked = self.protocol.knows_of(event_id)
        assert asked or known is None or event_id in self.pending or event_id in (self.flight or ())
        digest = make_entry(known).digest if known and asked else None
        try:
            acceptance = self.protocol.accept(event, known_digest=digest)
        except EventIdConflict:
            assert known is not None
            assert known != event
        except StaleEvent:
            assert known is None
            assert event_id < self.floor_now
        except QueueFull:
            assert len(self.pending) >= 4
        else:
            assert (acceptance is Acceptance.DUPLICATE) == (known is not None)
            if known is None:
                assert event_id >= self.floor_now
                self.known[event_id] = event
                self.pending.add(event_id)

    @precondition(lambda self: self.protocol.can_begin())
    @rule()
    def a_chunk_begins(self) -> None:
        tick = self.protocol.begin("r")
        prompts = [self.known[e].prompt for e in sorted(self.pending) if self.known[e].prompt]
        assert tick.event_ids == tuple(sorted(self.pending))
        assert tick.prompt == (prompts[-1] if prompts else self.prompt)
        self.flight, self.pending, self.ready = self.pending, set(), False

    @precondition(lambda self: self.flight is not None and not self.ready)
    @rule()
    def its_pixels_leave(self) -> None:
        self.protocol.ready(self.protocol.flight.tick)
        self.protocol.show()
        self.ready = True

    @precondition(lambda self: self.ready)
    @rule()
    def it_commits(self) -> None:
        tick = self.protocol.flight.tick
        self.protocol.commit(tick)
        self.committed.append(tick.event_ids)
        self.floor = self.floor_now
        self.prompt, self.blocks = tick.prompt, self.blocks + 1
        self.keys = tick.conditioning["camera"]["keys"]
        self.flight, self.ready = None, False

    @precondition(lambda self: self.flight is not None and not self.ready)
    @rule()
    def it_is_cancelled(self) -> None:
        self.protocol.rollback()
        self.pending |= self.flight
        self.flight = None

    @rule(resume=st.booleans())
    def it_is_reset(self, resume: bool) -> None:
        dropped = self.pending | (set() if self.ready or not self.flight else self.flight)
        discarded = self.protocol.reset(resume)
        assert discarded == tuple(str(event_id) for event_id in sorted(dropped))
        self.protocol.reset_done()
        self.pending, self.flight, self.ready = set(), None, False
        self.prompt, self.keys, self.blocks = ("a meadow" if resume else None), (), 0
        self.epoch += 1

    @rule()
    def the_engine_fails(self) -> None:
        self.protocol.fail("lost")
        assert self.protocol.state is SessionState.FAILED
        self.pending |= set() if self.ready or not self.flight else self.flight
        self.flight, self.ready = None, False
        self.it_is_reset(False)

    @invariant()
    def no_event_is_applied_twice(self) -> None:
        applied = [event_id for ids in self.committed for event_id in ids]
        assert len(applied) == len(set(applied))

    @invariant()
    def both_agree(self) -> None:
        assert self.protocol.pending == tuple(sorted(self.pending))
        assert self.protocol.floor == self.floor_now
        assert self.protocol.epoch == self.epoch
        if self.protocol.can_begin():
            tick = self.protocol.begin("probe")
            shown = tick.conditioning["camera"]
            pressed = [self.known[e].controls[0].data["keys"] for e in sorted(self.pending)]
            assert shown["blocks"] == self.blocks
            assert tuple(shown["keys"]) == tuple(pressed[-1] if pressed else self.keys)
            self.protocol.rollback()


TestRules = Rules.TestCase
TestRules.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
