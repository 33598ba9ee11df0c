"""The events that a session has accepted and no chunk has taken, by the rules for their ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engine.api import Reducer
from sessions.controls import check_control
from sessions.entry import Entry
from sessions.errors import EventIdConflict, QueueFull, StaleEvent
from sessions.events import Acceptance


class EventQueue:
    """At most `limit` of them. `floor` is that of the committed chunks, `highest` the highest known id."""

    def __init__(self, reducers: Mapping[str, Reducer], limit: int, floor: int = 0) -> None:
        self.floor = floor
        self.highest = -1
        self._reducers = reducers
        self._limit = limit
        self._waiting: dict[int, Entry] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """Sorted."""
        return tuple(sorted(self._waiting))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """In the order of their ids."""
        return self.chosen(None)

    @property
    def prompted(self) -> bool:
        """Whether any of them has a prompt."""
        return any(entry.event.prompt is not None for entry in self._waiting.values())

    def get(self, event_id: int) -> Entry | None:
        """The one with this id."""
        return self._waiting.get(event_id)

    def chosen(self, event_ids: Collection[int] | None) -> tuple[Entry, ...]:
        """All, or those of `event_ids`, in the order of their ids."""
        ids = self._waiting if event_ids is None else self._waiting.keys() & set(event_ids)
        return tuple([self._waiting[event_id] for event_id in sorted(ids)])

    def floor_behind(self, entries: tuple[Entry, ...]) -> int:
        """The floor once a chunk that takes these, in their order, is committed."""
        return max(self.floor, entries[-1].event.event_id + 1) if entries else self.floor

    def judge(self, entry: Entry, known_digest: str | None, floor: int) -> Acceptance:
        """What accepting this event would answer; changes nothing.

        `known_digest` is that of an event that was taken under its id before.

        Raises `EventIdConflict`, `StaleEvent`, `QueueFull`, `InvalidControl`.
        """
        event_id = entry.event.event_id
        if known_digest is not None:
            if known_digest == entry.digest:
                return Acceptance.DUPLICATE
            raise EventIdConflict(f"event {entry.label} was taken with another payload", field="event_id")
        if event_id < floor:
            raise StaleEvent(event_id, floor)
        if len(self._waiting) >= self._limit:
            raise QueueFull(f"{len(self._waiting)} events are pending: wait for the next chunk")
        for position, control in enumerate(entry.event.controls):
            check_control(control, self._reducers, f"controls[{position}]")
        return Acceptance.ACCEPTED

    def add(self, entry: Entry) -> None:
        """One that was judged acceptable."""
        self._waiting[entry.event.event_id] = entry
        self.highest = max(self.highest, entry.event.event_id)

    def remove(self, entries: Iterable[Entry]) -> None:
        """A chunk takes them."""
        for entry in entries:
            del self._waiting[entry.event.event_id]

    def put_back(self, entries: Iterable[Entry]) -> None:
        """The chunk that took them came to nothing."""
        self._waiting.update({entry.event.event_id: entry for entry in entries})

    def clear(self) -> tuple[str, ...]:
        """Drop all; their labels."""
        labels = tuple([entry.label for entry in self.entries])
        self._waiting.clear()
        return labels

    def stand(self, floor: int, highest: int, entries: tuple[Entry, ...]) -> None:
        """Be as another queue was."""
        self.floor, self.highest = floor, highest
        self._waiting = {entry.event.event_id: entry for entry in entries}
