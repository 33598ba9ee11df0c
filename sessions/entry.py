"""An event on its way into a session."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

from sessions.errors import InvalidEvent
from sessions.events import Event, frozen_event
from sessions.frozen import digest, frozen_text

LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class Entry:
    """A checked and frozen event."""

    event: Event
    name: str | None = None  # the client's own string for it
    arrived: float = 0.0  # the clock's seconds

    @property
    def label(self) -> str:
        """The id as the client knows it."""
        return self.name if self.name is not None else str(self.event.event_id)

    @property
    def digest(self) -> str:
        """SHA-256 of what it asks, without its id: by it a conflict is found when the payload is gone."""
        return payload_digest(self.event)


def make_entry(event: Event, name: str | None = None, arrived: float = 0.0) -> Entry:
    """Check and freeze an event; raises `InvalidEvent`."""
    if name is not None and not 0 < len(frozen_text(name, "event_id")) <= LONGEST_NAME:
        raise InvalidEvent(f"event_id has {len(name)} characters: give 1 to {LONGEST_NAME}", field="event_id")
    return Entry(frozen_event(event), name, arrived)


def payload_digest(event: Event) -> str:
    """SHA-256 of what an event asks, without its id; the order of its controls does not count."""
    controls = [(control.track, control.schema, control.data) for control in event.controls]
    if len(controls) > 1:
        controls.sort(key=itemgetter(0))
    return digest((event.prompt, controls))
