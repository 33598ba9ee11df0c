"""What the stores let go of for want of room, so that it can be told to whom it was taken from."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from sessions.observer import Observer
from sessions.snapshots import Pruned

WORLDS: Final = 1024
EACH: Final = 8


class Pruning:
    """Hears of all that is pruned, and remembers what a quota took: the newest few of the last worlds."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._worlds: OrderedDict[str, list[Pruned]] = OrderedDict()

    def hear(self, pruned: Pruned) -> None:
        """Something went."""
        self._observer.pruned(pruned.kind.value, pruned.bytes)
        if not pruned.for_room:
            return
        gone = self._worlds.setdefault(pruned.world, [])
        self._worlds.move_to_end(pruned.world)
        gone.append(pruned)
        del gone[:-EACH]
        if len(self._worlds) > WORLDS:
            self._worlds.popitem(last=False)

    def of(self, world: str) -> tuple[Pruned, ...]:
        """What a quota took from this world since the server started, the newest last."""
        return tuple(self._worlds.get(world, ()))
