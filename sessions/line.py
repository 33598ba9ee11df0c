"""Who waits for room, and who is next: fair between owners, first come first served within one."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Somebody's place in a line."""

    owner: str | None


class Line:
    """Owners take turns: whoever was served goes behind all other owners, and so does who comes anew.

    So an owner with a hundred waiting ones delays another's single one by one turn at most.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str | None, deque[Place]] = OrderedDict()  # the next owner first

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Place]:
        """In the order in which they are served, as far as nobody else comes."""
        rounds = [iter(places) for places in self._waiting.values()]
        while rounds:
            left = []
            for places in rounds:
                if (place := next(places, None)) is not None:
                    yield place
                    left.append(places)
            rounds = left

    @property
    def first(self) -> Place | None:
        """Who is next."""
        return next(iter(self), None)

    def count(self, owner: str | None) -> int:
        """How many of an owner's wait."""
        return len(self._waiting.get(owner, ()))

    def join(self, owner: str | None) -> Place:
        """A place at the end of the owner's."""
        place = Place(owner)
        self._waiting.setdefault(owner, deque()).append(place)
        return place

    def leave(self, place: Place) -> None:
        """Give a place up; idempotent."""
        self._remove(place)

    def served(self, place: Place) -> None:
        """Its turn has come: the owner goes behind all others."""
        if self._remove(place) and place.owner in self._waiting:
            self._waiting.move_to_end(place.owner)

    def position(self, place: Place) -> int:
        """1 is next."""
        return 1 + next(index for index, other in enumerate(self) if other is place)

    def position_of_next(self, owner: str | None) -> int:
        """The position that another one of this owner would have."""
        before = self.count(owner)
        owners = list(self._waiting)
        ahead = owners.index(owner) if owner in self._waiting else len(owners)
        others = [
            (index, len(places)) for index, places in enumerate(self._waiting.values()) if index != ahead
        ]
        return 1 + before + sum(min(size, before + (index < ahead)) for index, size in others)

    def _remove(self, place: Place) -> bool:
        places = self._waiting.get(place.owner)
        if places is None or place not in places:
            return False
        places.remove(place)
        if not places:
            del self._waiting[place.owner]
        return True
