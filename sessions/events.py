"""What a client asks of a running session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.api import Control
from sessions.errors import InvalidEvent
from sessions.frozen import LARGEST_INTEGER, freeze, frozen_text


class Acceptance(StrEnum):
    """How an event was taken."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # the same id and payload came before: no new effect


@dataclass(frozen=True, slots=True)
class Event:
    """One update: a prompt, controls, or both.

    Ids are unique and rising within a session, across resets too.
    """

    event_id: int
    prompt: str | None = None
    controls: tuple[Control, ...] = ()


def frozen_event(event: Event) -> Event:
    """The event, checked and deeply frozen: later changes by the caller are invisible.

    Raises `InvalidEvent`, naming the field, for a bad id, an empty event, two controls of one track, or data
    that is not finite JSON.
    """
    if type(event.event_id) is not int or not 0 <= event.event_id <= LARGEST_INTEGER:
        allowed = f"an integer from 0 to {LARGEST_INTEGER}"
        raise InvalidEvent(f"event_id is {event.event_id!r:.80}: give {allowed}", field="event_id")
    if event.prompt is None and not event.controls:
        raise InvalidEvent("the event is empty: give a prompt, controls, or both", field="prompt")
    if event.prompt is not None:
        frozen_text(event.prompt, "prompt")
    tracks = [control.track for control in event.controls]
    if len(set(tracks)) < len(tracks):
        raise InvalidEvent(
            f"controls has tracks {tracks}: give one control per track at most", field="controls"
        )
    if not event.controls:
        return event
    frozen = tuple([frozen_control(control, f"controls[{i}]") for i, control in enumerate(event.controls)])
    return Event(event.event_id, event.prompt, frozen)


def frozen_control(control: Control, path: str) -> Control:
    """The control with deeply frozen data; raises `InvalidEvent` where that is not finite JSON."""
    return Control(control.track, control.schema, freeze(control.data, f"{path}.data"))
