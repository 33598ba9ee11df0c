"""Pages by number: who holds which, and how often. Knows nothing of what they hold, and imports no torch."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kvcache.errors import OutOfPages


class BlockPool:
    """`total` pages, each free or held one or more times. The lowest free numbers go out first."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._holds = [0] * total
        self._free = list(range(total))  # a heap

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def in_use(self) -> int:
        """Pages that somebody holds, however often."""
        return self.total - self.free

    def holds(self, page: int) -> int:
        """How often a page is held."""
        return self._holds[page]

    def can_allocate(self, count: int) -> bool:
        """Whether `count` pages are free."""
        return count <= self.free

    def allocate(self, count: int) -> tuple[int, ...]:
        """Hold `count` free pages once. Raises `OutOfPages`, and then holds none."""
        if not self.can_allocate(count):
            raise OutOfPages(f"asked for {count} pages, {self.free} of {self.total} are free")
        pages = tuple(heapq.heappop(self._free) for _ in range(count))
        for page in pages:
            self._holds[page] = 1
        return pages

    def allocate_run(self, count: int) -> tuple[int, ...]:
        """Hold `count` neighbouring free pages once. Raises `OutOfPages` where there is no such run."""
        if count == 0:
            return ()
        start = 0
        for page, holds in enumerate(self._holds):
            if holds:
                start = page + 1
            elif page + 1 - start == count:
                return self._take_run(start, page + 1)
        raise OutOfPages(f"asked for {count} neighbouring pages, {self.free} of {self.total} are free")

    def retain(self, pages: Iterable[int]) -> None:
        """Hold pages that are held already once more."""
        for page in pages:
            assert self._holds[page] > 0, f"page {page} is free"
            self._holds[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """Undo one hold of each page; the last one frees it."""
        for page in pages:
            assert self._holds[page] > 0, f"page {page} is free"
            self._holds[page] -= 1
            if self._holds[page] == 0:
                heapq.heappush(self._free, page)

    def _take_run(self, start: int, end: int) -> tuple[int, ...]:
        self._free = [page for page in self._free if not start <= page < end]
        heapq.heapify(self._free)
        self._holds[start:end] = [1] * (end - start)
        return tuple(range(start, end))
