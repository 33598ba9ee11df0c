"""Every rule of a session, one sentence each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from session_fixtures import REDUCERS, KeysReducer, keys
from session_steps import press

from engine.api import Control, Tick
from sessions.conditions import EventMarks
from sessions.entry import make_entry
from sessions.errors import (
    EchoMismatch,
    EventIdConflict,
    InvalidControl,
    QueueFull,
    SessionClosed,
    SessionFailed,
    SessionTombstoned,
    StaleEvent,
    WrongState,
)
from sessions.events import Acceptance, Event
from sessions.protocol import SessionProtocol
from sessions.state import SessionState


@pytest.fixture
def protocol() -> SessionProtocol:
    return SessionProtocol("s", "world", "a meadow", REDUCERS)


def run(protocol: SessionProtocol, event_ids: list[int] | None = None) -> Tick:
    return finish(protocol, protocol.begin("r", event_ids))


def finish(protocol: SessionProtocol, tick: Tick) -> Tick:
    protocol.ready(tick)
    protocol.show()
    protocol.commit(tick)
    return tick


def test_the_first_tick_has_the_opening_prompt_and_no_events(protocol: SessionProtocol) -> None:
    tick = run(protocol)
    assert (tick.session_id, tick.world, tick.epoch, tick.chunk_index) == ("s", "world", 0, 0)
    assert (tick.event_ids, tick.prompt, tick.controls) == ((), "a meadow", ())
    assert tick.conditioning == {"camera": {"keys": (), "blocks": 0}}
    assert protocol.chunk_index == 1


def test_prompt_and_controls_are_sticky_until_changed(protocol: SessionProtocol) -> None:
    protocol.accept(Event(1, "rain", (keys("w"),)))
    first, second = run(protocol), run(protocol)
    assert (first.event_ids, second.event_ids) == ((1,), ())
    assert first.prompt == second.prompt == "rain"
    assert first.controls == second.controls == (Control("camera", "keys.v1", {"keys": ("w",)}),)
    protocol.accept(press(2, "d"))
    third = run(protocol)
    assert third.prompt == "rain"
    assert third.controls[0].data == {"keys": ("d",)}


def test_events_apply_sorted_whatever_the_order_they_came_in(protocol: SessionProtocol) -> None:
    for event_id, text in ((5, "five"), (3, "three"), (4, "four")):
        protocol.accept(Event(event_id, text))
    tick = run(protocol)
    assert tick.event_ids == (3, 4, 5)
    assert tick.prompt == "five"


def test_events_that_arrive_while_a_chunk_runs_wait_for_the_next(protocol: SessionProtocol) -> None:
    tick = protocol.begin("r")
    protocol.accept(press(1, "w"))
    finish(protocol, tick)
    assert tick.event_ids == ()
    assert run(protocol).event_ids == (1,)


def test_the_same_id_and_payload_is_a_duplicate_while_pending_in_flight_and_applied(
    protocol: SessionProtocol,
) -> None:
    event = press(1, "w")
    digest = make_entry(event).digest
    assert protocol.accept(event) is Acceptance.ACCEPTED
    assert protocol.accept(event) is Acceptance.DUPLICATE
    tick = protocol.begin("r")
    assert not protocol.knows_of(1)
    assert protocol.accept(event) is Acceptance.DUPLICATE
    finish(protocol, tick)
    assert protocol.knows_of(1)
    assert protocol.accept(event, known_digest=digest) is Acceptance.DUPLICATE
    protocol.reset()
    assert protocol.accept(event, known_digest=digest) is Acceptance.DUPLICATE
    assert protocol.pending == ()


def test_the_same_id_with_another_payload_is_a_conflict_at_any_time(protocol: SessionProtocol) -> None:
    digest = make_entry(press(1, "w")).digest
    protocol.accept(press(1, "w"))
    with pytest.raises(EventIdConflict):
        protocol.accept(press(1, "d"))
    run(protocol)
    with pytest.raises(EventIdConflict):
        protocol.accept(press(1, "d"), known_digest=digest)
    assert protocol.pending == ()


def test_a_never_seen_id_below_the_floor_is_stale(protocol: SessionProtocol) -> None:
    protocol.accept(press(5, "w"))
    protocol.accept(press(2, "w"))  # out of order above the floor
    protocol.begin("r")
    with pytest.raises(StaleEvent, match="event floor is 6"):
        protocol.accept(press(4, "w"))
    assert protocol.accept(press(6, "d")) is Acceptance.ACCEPTED


def test_the_floor_falls_back_with_a_rollback(protocol: SessionProtocol) -> None:
    protocol.accept(press(5, "w"))
    protocol.begin("r")
    protocol.rollback()
    assert protocol.floor == 0
    assert protocol.accept(press(4, "w")) is Acceptance.ACCEPTED
    assert run(protocol).event_ids == (4, 5)


def test_the_floor_survives_a_reset(protocol: SessionProtocol) -> None:
    protocol.accept(press(5, "w"))
    run(protocol)
    protocol.reset()
    with pytest.raises(StaleEvent):
        protocol.accept(press(3, "w"))
    assert protocol.next_event_id == 6


def test_a_full_queue_refuses_until_a_chunk_has_taken_it(protocol: SessionProtocol) -> None:
    for event_id in range(32):
        protocol.accept(press(event_id, "w"))
    with pytest.raises(QueueFull):
        protocol.accept(press(32, "w"))
    assert protocol.accept(press(31, "w")) is Acceptance.DUPLICATE
    protocol.begin("r")
    assert protocol.accept(press(32, "w")) is Acceptance.ACCEPTED


@pytest.mark.parametrize(
    ("control", "field"),
    [
        (keys("bad"), "controls[0].data.keys[0]"),
        (Control("light", "keys.v1", {}), "controls[0].track"),
        (Control("camera", "keys.v2", {}), "controls[0].schema"),
    ],
)
def test_a_bad_control_is_refused_when_it_comes_and_harms_nothing(
    protocol: SessionProtocol, control: Control, field: str
) -> None:
    with pytest.raises(InvalidControl) as refused:
        protocol.accept(Event(1, "rain", (control,)))
    assert refused.value.field == field
    assert protocol.pending == ()
    assert run(protocol).prompt == "a meadow"
    assert protocol.accept(press(1, "w")) is Acceptance.ACCEPTED


def test_a_rolled_back_chunk_leaves_no_trace(protocol: SessionProtocol) -> None:
    protocol.accept(Event(1, "rain", (keys("w"),)))
    undisturbed = SessionProtocol("s", "world", "a meadow", REDUCERS)
    undisturbed.accept(Event(1, "rain", (keys("w"),)))
    protocol.begin("r")
    protocol.accept(press(2, "d"))
    protocol.rollback()
    undisturbed.accept(press(2, "d"))
    assert protocol.pending == (1, 2)
    assert run(protocol) == run(undisturbed)


def test_a_chunk_whose_pixels_left_is_not_cancelled(protocol: SessionProtocol) -> None:
    assert not protocol.can_cancel()
    tick = protocol.begin("r")
    assert protocol.can_cancel()
    protocol.ready(tick)
    assert not protocol.can_cancel()


def test_only_an_exact_echo_commits(protocol: SessionProtocol) -> None:
    tick = protocol.begin("r")
    others = (
        replace(tick, request_id="other"),
        replace(tick, epoch=1),
        replace(tick, world="other"),
        replace(tick, event_ids=(9,)),
        replace(tick, conditioning={"camera": {"keys": ("w",), "blocks": 0}}),
    )
    for other in others:
        with pytest.raises(EchoMismatch):
            protocol.ready(other)
    protocol.ready(replace(tick))
    protocol.show()
    for other in others:
        with pytest.raises(EchoMismatch):
            protocol.commit(other)
    assert protocol.chunk_index == 0
    protocol.commit(replace(tick))
    assert protocol.chunk_index == 1


def test_one_chunk_at_a_time(protocol: SessionProtocol) -> None:
    protocol.begin("r")
    assert not protocol.can_begin()
    with pytest.raises(WrongState, match="chunk 0 is still being computed"):
        protocol.begin("r2")


def test_a_reset_clears_everything_but_ids_and_names_what_it_dropped(protocol: SessionProtocol) -> None:
    protocol.accept(Event(1, "rain", (keys("w"),)))
    run(protocol)
    protocol.accept(press(2, "d"), name="evt-b")
    protocol.accept(press(3, "d"))
    protocol.begin("r", [2])
    assert protocol.reset() == ("evt-b", "3")
    assert (protocol.epoch, protocol.chunk_index, protocol.pending) == (1, 0, ())
    assert protocol.flight is None
    protocol.reset_done()
    protocol.accept(Event(4, "snow"))
    tick = run(protocol)
    assert (tick.epoch, tick.prompt, tick.controls) == (1, "snow", ())
    assert tick.conditioning == {"camera": {"keys": (), "blocks": 0}}


def test_after_a_reset_the_next_chunk_waits_for_a_prompt(protocol: SessionProtocol) -> None:
    protocol.reset()
    protocol.reset_done()
    assert protocol.waiting
    assert not protocol.can_begin()
    with pytest.raises(WrongState, match="no prompt since the reset"):
        protocol.begin("r")
    protocol.accept(press(1, "w"))
    assert not protocol.can_begin()
    protocol.accept(Event(2, "snow"))
    assert protocol.can_begin()
    assert not protocol.waiting
    assert run(protocol).event_ids == (1, 2)


def test_a_reset_that_resumes_opens_as_the_session_did() -> None:
    protocol = SessionProtocol("s", "w", "a meadow", REDUCERS, script=keys("w"))
    opening = run(protocol)
    protocol.accept(Event(1, "rain", (keys("d"),)))
    run(protocol)
    protocol.reset(resume=True)
    protocol.reset_done()
    assert run(protocol) == replace(opening, epoch=1)


def test_no_chunk_begins_before_the_reset_is_done(protocol: SessionProtocol) -> None:
    protocol.reset(resume=True)
    assert not protocol.can_begin()
    with pytest.raises(WrongState, match="being reset"):
        protocol.begin("r")
    protocol.reset_done()
    assert protocol.can_begin()


def test_an_answer_from_before_a_reset_is_not_current(protocol: SessionProtocol) -> None:
    tick = protocol.begin("r")
    assert protocol.is_current(tick)
    protocol.reset()
    assert not protocol.is_current(tick)
    with pytest.raises(EchoMismatch):
        protocol.ready(tick)


def test_events_whose_effect_was_shown_are_not_reported_as_dropped(protocol: SessionProtocol) -> None:
    protocol.accept(press(1, "w"))
    protocol.ready(protocol.begin("r"))
    protocol.show()
    assert protocol.reset() == ()


def test_a_failed_session_takes_nothing_but_a_reset_or_a_close(protocol: SessionProtocol) -> None:
    protocol.begin("r")
    protocol.fail("out of memory")
    assert (protocol.state, protocol.reason) == (SessionState.FAILED, "out of memory")
    with pytest.raises(SessionFailed, match="out of memory"):
        protocol.accept(press(1, "w"))
    with pytest.raises(SessionFailed):
        protocol.begin("r")
    protocol.reset(resume=True)
    protocol.reset_done()
    assert (protocol.state, protocol.reason) == (SessionState.ACTIVE, "")
    run(protocol)


def test_a_closed_session_takes_nothing(protocol: SessionProtocol) -> None:
    protocol.begin("r")
    protocol.begin_close()
    for _ in range(2):
        with pytest.raises(SessionClosed):
            protocol.accept(press(1, "w"))
        with pytest.raises(SessionClosed):
            protocol.begin("r")
        with pytest.raises(SessionClosed):
            protocol.reset()
        if protocol.state is SessionState.CLOSING:
            protocol.end_close()
    assert protocol.state is SessionState.CLOSED


def test_a_tombstone_refuses_everything_but_another_close(protocol: SessionProtocol) -> None:
    protocol.begin_close()
    protocol.end_close("pages are still leased")
    assert protocol.state is SessionState.CLEANUP_FAILED
    with pytest.raises(SessionTombstoned, match="pages are still leased"):
        protocol.reset()
    with pytest.raises(SessionTombstoned):
        protocol.accept(press(1, "w"))
    protocol.begin_close()
    protocol.end_close()
    assert protocol.state is SessionState.CLOSED


def test_a_chunk_says_which_events_it_starts_has_in_force_and_completes(protocol: SessionProtocol) -> None:
    protocol.accept(Event(1, "rain"), name="rain")
    protocol.accept(press(2, "w"), name="walk")
    protocol.begin("r")
    assert protocol.flight.marks.started == ("rain", "walk")
    assert protocol.flight.marks.active == ("rain", "walk")
    assert protocol.flight.marks.completed == ()
    protocol.rollback()
    run(protocol)
    protocol.accept(press(3, "a"), name="left")
    protocol.accept(press(4, "d"), name="right")
    protocol.begin("r")
    assert protocol.flight.marks.started == ("left", "right")
    assert protocol.flight.marks.active == ("rain", "right")
    assert protocol.flight.marks.completed == ("walk", "left")


def test_an_event_is_completed_by_the_chunk_that_its_control_is_spent_with(protocol: SessionProtocol) -> None:
    protocol.accept(press(1, "script", "w", "w"), name="walk")
    protocol.accept(Event(2, "rain"), name="rain")
    marks = []
    for _ in range(3):
        tick = protocol.begin("r")
        marks.append(protocol.ready(tick))
        protocol.show()
        protocol.commit(tick)
    assert [one.started for one in marks] == [("walk", "rain"), (), ()]
    assert [one.active for one in marks] == [("walk", "rain"), ("rain",), ("rain",)]
    assert [one.completed for one in marks] == [(), ("walk",), ()]


def test_an_event_whose_prompt_lasts_outlives_its_spent_control(protocol: SessionProtocol) -> None:
    protocol.accept(Event(1, "rain", press(1, "script", "w").controls), name="both")
    protocol.begin("r")
    assert protocol.flight.marks == EventMarks(started=("both",), active=("both",), completed=())


def test_a_chunk_can_take_some_of_the_pending_events(protocol: SessionProtocol) -> None:
    for event_id in (1, 2, 3):
        protocol.accept(press(event_id, "w"))
    assert run(protocol, [1, 2, 99]).event_ids == (1, 2)
    assert protocol.pending == (3,)


def test_a_reducer_that_raises_at_the_chunk_changes_nothing(protocol: SessionProtocol) -> None:
    class Stumbling(KeysReducer):
        def advance(self, state):
            raise ArithmeticError("gimbal lock")

    stumbling = SessionProtocol("s", "w", "a meadow", {"camera": Stumbling()})
    stumbling.accept(press(1, "w"))
    with pytest.raises(ArithmeticError):
        stumbling.begin("r")
    assert stumbling.pending == (1,)
    assert stumbling.flight is None
