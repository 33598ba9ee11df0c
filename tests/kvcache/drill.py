"""Random operations on caches, each beside a plain model of what must come of it.

A drill offers operations that draw their arguments, legal and illegal ones, and a check of everything that
must hold between them. `test_drills.py` runs them in two ways: long, from seeds, and short, by hypothesis,
which shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Draw(Protocol):
    """Where arguments come from."""

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""


def pick(draw: Draw, items: Sequence[Item]) -> Item:
    return items[draw.below(len(items))]


class Drill(Protocol):
    """A system under test beside its model."""

    @property
    def operations(self) -> Sequence[Callable[[Draw], None]]:
        """What can be done next."""

    def check(self) -> None:
        """Assert all that holds between operations."""

    def finish(self) -> None:
        """End everything that is open, and assert that nothing is left."""


def expect(allowed: bool, error: type[Exception], action: Callable[[], Item]) -> Item | None:
    """Run `action`, which must succeed if it is allowed and raise `error` if it is not."""
    try:
        result = action()
    except error:
        assert not allowed
        return None
    assert allowed
    return result
