"""What every session of a server shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from engine.api import Engine, ModelCard, Reducer
from sessions.admission import Admission
from sessions.archive import Archive
from sessions.clock import Clock
from sessions.journal import Journal
from sessions.limits import Limits
from sessions.observer import Observer
from sessions.quotas import Meter
from sessions.recordings import RecordingStore
from sessions.snapshots import SnapshotStore


@dataclass(frozen=True, slots=True)
class Services:
    """Handed from the manager to its sessions. `new_id` makes ids that no one can guess or meet again.

    `make_room` puts an idle session's world away, and says whether there was one; `admission` is the way in
    where there may be none, and `meter` holds owners to their quotas. `archive` reads sessions from
    `journal` and `snapshots`; without those a world is made again from its first chunk on.
    """

    engine: Engine
    card: ModelCard
    journal: Journal
    reducers: Mapping[str, Reducer]
    clock: Clock
    limits: Limits
    observer: Observer
    new_id: Callable[[], str]
    make_room: Callable[[], Awaitable[bool]]
    admission: Admission
    meter: Meter
    archive: Archive
    snapshots: SnapshotStore | None = None
    recordings: RecordingStore | None = None
