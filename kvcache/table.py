"""Which pages one session holds: one page per latent frame and branch. Pure bookkeeping; imports no torch."""

from __future__ import annotations

from kvcache.errors import OutOfPages
from kvcache.pool import BlockPool
from kvcache.slots import SlotRule


class BlockTable:
    """The pages of the frames in a session's view, and of its block in flight.

    The block in flight has private pages until it commits; then they take the place of the frames that left
    the view. Tables hold disjoint pages.
    """

    def __init__(self, rule: SlotRule, pool: BlockPool, branches: int = 1) -> None:
        self.frames = 0
        self._rule = rule
        self._pool = pool
        self._branches = branches
        self._pages: dict[int, tuple[int, ...]] = {}  # slot -> its pages, one per branch
        self._private: tuple[int, ...] = ()
        self._in_flight = False

    @property
    def pages(self) -> tuple[int, ...]:
        """Committed pages in slot order."""
        return tuple(page for slot in sorted(self._pages) for page in self._pages[slot])

    @property
    def private(self) -> tuple[int, ...]:
        """Pages of the block in flight."""
        return self._private

    def can_begin(self) -> bool:
        """Whether the pool has room for a block."""
        return self._pool.can_allocate(self._block_pages)

    def begin(self) -> None:
        """Take private pages for the next block. Raises `OutOfPages`, and then nothing is taken."""
        assert not self._in_flight, "one block is in flight at a time"
        self._private = self._pool.allocate(self._block_pages)
        self._in_flight = True

    def commit(self) -> None:
        """The block's pages are the session's; those of frames that left the view are given up."""
        assert self._in_flight
        pages = self._private
        for offset in range(self._rule.frames_per_block):
            slot = self._rule.slot(self.frames + offset)
            self._pool.release(self._pages.get(slot, ()))
            self._pages[slot] = pages[offset * self._branches : (offset + 1) * self._branches]
        self.frames += self._rule.frames_per_block
        self._private, self._in_flight = (), False

    def rollback(self) -> None:
        """Give the private pages up; without a block in flight, does nothing."""
        self._pool.release(self._private)
        self._private, self._in_flight = (), False

    def restore(self, frames: int) -> None:
        """Hold pages for the frames that the next block of a session of `frames` frames sees, and no others.

        Raises `OutOfPages`, and then holds what it held.
        """
        slots = self._rule.kept(frames)
        own = len(self.pages) + len(self._private)
        need = len(slots) * self._branches
        if need > self._pool.free + own:
            raise OutOfPages(f"asked for {need} pages, {self._pool.free} and the session's {own} are free")
        self.release()
        self._pages = {slot: self._pool.allocate(self._branches) for slot in slots}
        self.frames = frames

    def release(self) -> None:
        """Give every page up; may be repeated."""
        self.rollback()
        self._pool.release(self.pages)
        self._pages, self.frames = {}, 0

    @property
    def _block_pages(self) -> int:
        return self._rule.frames_per_block * self._branches
