"""Where a server keeps what outlives it."""

from __future__ import annotations

from dataclasses import dataclass

from sessions.journal import Journal
from sessions.recordings import RecordingStore
from sessions.snapshots import SnapshotStore
from sessions.usage import Usage


@dataclass(frozen=True, slots=True)
class Stores:
    """Without snapshots, what was suspended is computed again from its first chunk; without recordings, there
    is no `video.mp4`.
    """

    journal: Journal
    snapshots: SnapshotStore | None = None
    recordings: RecordingStore | None = None
    usage: Usage | None = None  # None: totals of quotas are forgotten with the server
