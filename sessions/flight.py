"""A chunk that is being computed."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api import Tick
from sessions.conditions import Conditions, EventMarks
from sessions.entry import Entry


@dataclass(slots=True)
class Flight:
    """The chunk that is being computed, and what it leads to."""

    tick: Tick
    entries: tuple[Entry, ...]
    after: Conditions
    floor: int
    marks: EventMarks
    ready: bool = False  # its pixels may leave: it can't be rolled back any more
    shown: bool = False  # its pixels have left
