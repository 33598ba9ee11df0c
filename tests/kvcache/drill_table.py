"""Tables over one pool, with a note of what every page holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drill import Draw, expect, pick

from kvcache.errors import OutOfPages
from kvcache.pool import BlockPool
from kvcache.slots import SlotRule
from kvcache.table import BlockTable


@dataclass
class ModelTable:
    table: BlockTable
    history: list[int]  # what was written for each frame, from the first
    in_flight: list[int] | None = None


class TableDrill:
    """Tables over one pool; what every page holds is written down, so that a lost frame is seen."""

    RULE = SlotRule(sink=2, view=7, frames_per_block=2)

    def __init__(self) -> None:
        self.pool = BlockPool(40)
        self.tables: list[ModelTable] = []
        self.written: dict[int, int] = {}  # page -> what was last written there
        self.next = 0
        self.operations = (
            self.open,
            self.begin,
            self.begin,
            self.begin,
            self.commit,
            self.commit,
            self.commit,
            self.rollback,
            self.restore,
            self.release,
        )

    def open(self, draw: Draw) -> None:
        if len(self.tables) < 5:
            self.tables.append(ModelTable(BlockTable(self.RULE, self.pool, branches=2), []))

    def begin(self, draw: Draw) -> None:
        if not (idle := [item for item in self.tables if item.in_flight is None]):
            return
        item = pick(draw, idle)
        expect(item.table.can_begin(), OutOfPages, item.table.begin)
        if item.table.private:
            item.in_flight = [self.write(item.table.private[2 * frame :][:2]) for frame in range(2)]

    def write(self, pages: Sequence[int]) -> int:
        self.next += 1
        for page in pages:
            self.written[page] = self.next
        return self.next

    def commit(self, draw: Draw) -> None:
        if busy := [item for item in self.tables if item.in_flight is not None]:
            item = pick(draw, busy)
            item.table.commit()
            item.history += item.in_flight or []
            item.in_flight = None

    def rollback(self, draw: Draw) -> None:
        if self.tables:
            item = pick(draw, self.tables)
            item.table.rollback()
            item.in_flight = None

    def restore(self, draw: Draw) -> None:
        if not self.tables or draw.below(3):
            return
        item, frames = pick(draw, self.tables), 2 * draw.below(12)
        before = item.table.pages
        try:
            item.table.restore(frames)
        except OutOfPages:
            assert item.table.pages == before
            return
        kept = self.RULE.kept(frames)
        item.history, item.in_flight = [0] * frames, None
        for place, slot in enumerate(kept):
            tag = self.write(item.table.pages[2 * place :][:2])
            item.history[self.newest(slot, frames)] = tag

    def release(self, draw: Draw) -> None:
        if self.tables and draw.below(3) == 0:
            item = self.tables.pop(draw.below(len(self.tables)))
            item.table.release()

    def check(self) -> None:
        held = [page for item in self.tables for page in item.table.pages + item.table.private]
        assert self.pool.in_use == len(set(held)) == len(held), "a page is held twice, or by nobody"
        for item in self.tables:
            assert item.table.frames == len(item.history)
            self.check_view(item)

    def check_view(self, item: ModelTable) -> None:
        """What the next block sees of the past is what was written for those frames."""
        frames = len(item.history)
        slots = sorted(item.table._pages)
        assert set(self.RULE.kept(frames)) <= set(slots) <= set(range(self.RULE.view))
        for slot in self.RULE.kept(frames):
            wanted = item.history[self.newest(slot, frames)]
            assert [self.written[page] for page in item.table._pages[slot]] == [wanted, wanted]

    def newest(self, slot: int, frames: int) -> int:
        """The last of so many frames that was written to the slot."""
        return max(frame for frame in range(frames) if self.RULE.slot(frame) == slot)

    def finish(self) -> None:
        for item in self.tables:
            item.table.release()
        assert self.pool.in_use == 0
