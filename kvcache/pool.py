"""Pages by number, held or free. Knows nothing of what they hold, and imports no torch."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kvcache.errors import OutOfPages


class BlockPool:
    """`total` pages, each free or held by one holder. The lowest free numbers go out first."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._held = [False] * total
        self._free = list(range(total))  # a heap

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def in_use(self) -> int:
        """Pages that somebody holds."""
        return self.total - self.free

    def can_allocate(self, count: int) -> bool:
        """Whether `count` pages are free."""
        return count <= self.free

    def allocate(self, count: int) -> tuple[int, ...]:
        """Hold `count` free pages. Raises `OutOfPages`, and then holds none."""
        if not self.can_allocate(count):
            raise OutOfPages(f"asked for {count} pages, {self.free} of {self.total} are free")
        pages = tuple(heapq.heappop(self._free) for _ in range(count))
        for page in pages:
            self._held[page] = True
        return pages

    def allocate_run(self, count: int) -> tuple[int, ...]:
        """Hold `count` neighbouring free pages. Raises `OutOfPages` where there is no such run."""
        if count == 0:
            return ()
        start = 0
        for page, held in enumerate(self._held):
            if held:
                start = page + 1
            elif page + 1 - start == count:
                return self._take_run(start, page + 1)
        raise OutOfPages(f"asked for {count} neighbouring pages, {self.free} of {self.total} are free")

    def release(self, pages: Iterable[int]) -> None:
        """Free pages that are held."""
        for page in pages:
            assert self._held[page], f"page {page} is free"
            self._held[page] = False
            heapq.heappush(self._free, page)

    def _take_run(self, start: int, end: int) -> tuple[int, ...]:
        self._free = [page for page in self._free if not start <= page < end]
        heapq.heapify(self._free)
        self._held[start:end] = [True] * (end - start)
        return tuple(range(start, end))
