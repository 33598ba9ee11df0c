"""The clients' own strings for events, as far as they are in memory."""

from __future__ import annotations

from collections import OrderedDict

from sessions.journal import KnownEvent


class RecentNames:
    """The last names of a session. While none was dropped, a name that is not here was never used."""

    def __init__(self, most: int = 128, complete: bool = True) -> None:
        self._most = most
        self._names: OrderedDict[str, KnownEvent] = OrderedDict()
        self.complete = complete

    def get(self, name: str) -> KnownEvent | None:
        """What is known of a name."""
        return self._names.get(name)

    def add(self, known: KnownEvent) -> None:
        """Remember a name; the oldest may be dropped for it (the journal still has it)."""
        if known.name is None:
            return
        self._names[known.name] = known
        if len(self._names) > self._most:
            self._names.popitem(last=False)
            self.complete = False
