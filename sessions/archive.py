"""What there is to read of a session: its journal, and where its newest snapshot lets that be begun."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from engine.api import Reducer
from sessions.checkpoint import decode_checkpoint
from sessions.errors import JournalCorrupt, StorageUnavailable
from sessions.history import BeforeCheckpoint, History, read_history, rebuild
from sessions.journal import Journal
from sessions.snapshots import SnapshotStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Archive:
    """Both may raise `JournalCorrupt` and `JournalUnavailable`."""

    journal: Journal
    snapshots: SnapshotStore | None
    reducers: Mapping[str, Reducer]
    pending_limit: int

    async def whole(self, world: str) -> History:
        """From its opening on."""
        return await read_history(self.journal, world, self.reducers, self.pending_limit)

    async def recent(self, world: str) -> History:
        """From its newest snapshot on, so that a long session is read as fast as a short one.

        Where that can't be, from its opening on.
        """
        try:
            history = await self._since_snapshot(world)
        except (StorageUnavailable, JournalCorrupt) as error:
            log.warning("the journal of %s is read from its beginning: %s", world, error)
            history = None
        except BeforeCheckpoint as behind:
            log.debug("the journal of %s is read from its beginning: %s", world, behind)
            history = None
        return await self.whole(world) if history is None else history

    async def _since_snapshot(self, world: str) -> History | None:
        kept = None if self.snapshots is None else await self.snapshots.session(world)
        if kept is None:
            return None
        checkpoint = decode_checkpoint(kept)
        opening = await self.journal.read(world, limit=1)
        rest = await self.journal.read(world, after=checkpoint.facts - 2)
        if not rest or rest[0].sequence != checkpoint.facts - 1:
            raise JournalCorrupt(f"a snapshot says that there are {checkpoint.facts} facts or more")
        recorded = [record.fact for record in (*opening, *rest[1:])]
        return rebuild(recorded, self.reducers, self.pending_limit, checkpoint=checkpoint)
