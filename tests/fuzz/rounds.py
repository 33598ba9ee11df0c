"""How many cases are tried, and which."""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, seed, settings

CASES = int(os.environ.get("CASES", "100000"))  # of a long run: a fifth are calls of routes, which cost more
NAMING = {"invalid_request", "invalid_event", "invalid_control", "unknown_model"}  # codes that name a field

Property = Callable[[], None]


def trying(examples: int, number: int | None) -> Callable[[Property], Property]:
    """So many examples of a property, by the seed `number`; None: the same ones each time."""
    chosen = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=number is None,
        suppress_health_check=list(HealthCheck),
    )
    return chosen if number is None else lambda prop: seed(number)(chosen(prop))
