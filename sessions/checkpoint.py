"""Where a session stood when a snapshot of its world was taken: its journal is read from there on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sessions.entry import Entry
from sessions.errors import InvalidEvent, JournalCorrupt
from sessions.fact_codec import conditions_of, event_of, plain
from sessions.frozen import canonical, freeze
from sessions.snapshots import Point
from sessions.standing import Standing


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What so many of a life's facts (`facts`) lead to; `transport_index` is the next chunk's.

    `point` is the snapshot's: after a rewind, its epoch is that of the last chunk, which may be earlier.
    """

    point: Point
    facts: int
    transport_index: int
    standing: Standing


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """As JSON."""
    return canonical(plain(checkpoint)).encode()


def decode_checkpoint(data: bytes) -> Checkpoint:
    """What was encoded; raises `JournalCorrupt` where it can't be understood."""
    try:
        content: Any = freeze(json.loads(data))
        standing = content["standing"]
        pending = tuple([Entry(event_of(entry["event"]), entry["name"]) for entry in standing["pending"]])
        conditions = conditions_of(standing["conditions"])
        values = {**standing, "pending": pending, "conditions": conditions}
        point = Point(**content["point"])
        return Checkpoint(point, content["facts"], content["transport_index"], Standing(**values))
    except (KeyError, TypeError, ValueError, InvalidEvent) as error:
        raise JournalCorrupt(f"a snapshot's session can't be read: {error!r}") from error
