"""What a session's future depends on, between two chunks."""

from __future__ import annotations

from dataclasses import dataclass

from sessions.conditions import Conditions
from sessions.entry import Entry


@dataclass(frozen=True, slots=True)
class Standing:
    """Of an active session with no chunk in flight. `highest` is the highest event id that was taken."""

    epoch: int
    chunk_index: int
    floor: int
    highest: int
    pending: tuple[Entry, ...]
    conditions: Conditions
