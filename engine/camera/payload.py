"""Reading a control's JSON: every refusal says the path, what came and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.api import ControlRefused, FrozenJson

LONGEST_QUOTE = 60


def refuse(path: str, came: object, allowed: str) -> ControlRefused:
    """An error that quotes `came` shortly."""
    quoted = repr(came)
    if len(quoted) > LONGEST_QUOTE:
        quoted = quoted[:LONGEST_QUOTE] + "..."
    return ControlRefused(path, f"{path}: got {quoted}, expected {allowed}")


def fields_of(
    value: FrozenJson, path: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, FrozenJson]:
    """An object with all `required` and no unknown fields."""
    if not isinstance(value, Mapping):
        raise refuse(path, value, f"an object with {', '.join(required)}")
    for name in required:
        if name not in value:
            raise ControlRefused(f"{path}.{name}", f"{path}.{name}: missing, expected in {path}")
    for name in value:
        if name not in required and name not in optional:
            allowed = f"no such field; allowed are {', '.join((*required, *optional))}"
            raise ControlRefused(f"{path}.{name}", f"{path}.{name}: {allowed}")
    return value


def items_of(value: FrozenJson, path: str, least: int, most: int) -> tuple[FrozenJson, ...]:
    """A list of `least` to `most` items."""
    if not isinstance(value, (tuple, list)):
        raise refuse(path, value, "a list")
    if not least <= len(value) <= most:
        allowed = f"{least}" if least == most else f"{least} to {most}"
        raise ControlRefused(path, f"{path}: got {len(value)} items, expected {allowed}")
    return tuple(value)


def number_of(value: FrozenJson, path: str, limit: float = math.inf) -> float:
    """A finite number of at most `limit` in size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise refuse(path, value, "a finite number")
    if abs(value) > limit:
        raise refuse(path, value, f"at most {limit:g} in size")
    return float(value)


def numbers_of(value: FrozenJson, path: str, count: int, limit: float = math.inf) -> tuple[float, ...]:
    """A list of `count` finite numbers."""
    items = items_of(value, path, count, count)
    return tuple(number_of(item, f"{path}[{i}]", limit) for i, item in enumerate(items))


def whole_of(value: FrozenJson, path: str, most: int) -> int:
    """An integer of 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise refuse(path, value, f"an integer of 0 to {most}")
    return value


def choice_of(value: FrozenJson, path: str, allowed: tuple[str, ...]) -> str:
    """One of the strings in `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise refuse(path, value, "one of " + ", ".join(allowed))
    return value
