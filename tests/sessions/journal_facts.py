"""One fact of each kind, as journals hold them."""

from __future__ import annotations

from dataclasses import replace

from session_fixtures import SPEC, keys

from engine.api import Tick
from sessions import facts
from sessions.events import Event, frozen_event
from sessions.facts import Fact
from sessions.frozen import FrozenDict
from sessions.journal import Journal

TICK = Tick(
    session_id="s",
    world="w",
    epoch=1,
    request_id="r",
    chunk_index=2,
    event_ids=(3, 4),
    prompt="räin ☔",
    controls=frozen_event(Event(1, None, (keys("w"),))).controls,
    conditioning=FrozenDict(camera=(FrozenDict(yaw=0.1), None)),
)
OPENED = facts.SessionOpened("s", "w", replace(SPEC, image=b"\x89PNG", scene=None, script=TICK.controls[0]))
FACTS: list[Fact] = [
    OPENED,
    facts.EventAccepted(frozen_event(Event(3, "räin", (keys("w"),))), "digest-3", "evt-c"),
    facts.EventAccepted(Event(4, "rain"), "digest-4"),
    facts.ChunkBegun(TICK, "sha", 7),
    facts.ChunkCommitted(1, 2, (3, 4), "sha"),
    facts.SessionFailed(1, 3, "session_failed", "out of memory"),
    facts.SessionReset(2, True),
    facts.CleanupFailed("pages are leased"),
    facts.SessionClosed("client"),
]


async def write(journal: Journal, *written: Fact, world: str = "w", first: int = 0) -> None:
    for number, fact in enumerate(written, first):
        await journal.append(world, number, fact, 100.0 + number)
