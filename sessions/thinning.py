"""Which of a world's snapshots to let go, so that none is far from the next."""

from __future__ import annotations

from collections.abc import Sequence

from sessions.snapshots import Point

_NEWEST = 2  # stay: the last may turn out to be damaged


def superfluous(points: Sequence[Point], keep: int) -> list[Point]:
    """Of rising `points`, those to remove so that `keep` are left: one by one, whichever leaves the smallest
    gap. Getting to any chunk then means recomputing about one `keep`th of the way at most.
    """
    kept, gone = list(points), []
    while len(kept) > keep:
        gone.append(kept.pop(min(range(len(kept) - _NEWEST), key=lambda index: _gap(kept, index))))
    return gone


def _gap(points: Sequence[Point], index: int) -> tuple[int, int]:
    """Chunks between the neighbours of a point, the way from a world's start included; a rewind's jump back
    counts as nothing.
    """
    before = points[index - 1].chunks if index else 0
    return max(0, points[index + 1].chunks - before), index
