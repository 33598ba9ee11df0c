"""Deeply frozen JSON: what a client sent, made unchangeable, hashable and picklable."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from engine.api import FrozenJson
from sessions.errors import InvalidEvent

DEEPEST = 32
LARGEST_INTEGER = 2**53 - 1  # what every JSON reader keeps exactly


class FrozenDict(dict[str, FrozenJson]):
    """A dict that can't be changed; its values are frozen too, so it hashes."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("a FrozenDict can't be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, FrozenJson]]]:
        return FrozenDict, (dict(self),)


def freeze(value: object, path: str = "data", depth: int = 0) -> FrozenJson:
    """A frozen copy of JSON-like data (what is frozen already is taken as it is).

    Raises `InvalidEvent` with the path of the first value that is not JSON: NaN or infinity, an integer
    beyond +-(2**53 - 1), a key that is not text, text that is not Unicode, other types, nesting deeper than
    32.
    """
    kind = type(value)
    if value is None or kind is bool or kind is FrozenDict:
        return value  # type: ignore[return-value]
    if kind is str:
        return frozen_text(value, path)
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise InvalidEvent(f"{path} is {value}: give a finite number", field=path)
        return value  # type: ignore[return-value]
    if kind is int:
        if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:  # type: ignore[operator]
            raise InvalidEvent(f"{path} is too large an integer: at most 2**53 - 1 in size", field=path)
        return value  # type: ignore[return-value]
    if depth >= DEEPEST:
        raise InvalidEvent(f"{path} is nested deeper than {DEEPEST} levels", field=path)
    if isinstance(value, list | tuple):
        return tuple([freeze(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)])
    if isinstance(value, Mapping):
        return FrozenDict(
            {_key(key, path): freeze(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
        )
    raise InvalidEvent(f"{path} is a {kind.__name__}: give JSON data", field=path)


def frozen_text(value: object, path: str) -> str:
    """The text itself; raises `InvalidEvent` where it is none, or holds half of a surrogate pair."""
    if not isinstance(value, str):
        raise InvalidEvent(f"{path} is {value!r:.80}: give text", field=path)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidEvent(f"{path} is not valid Unicode: {error.reason}", field=path) from None
    return value


def _key(key: object, path: str) -> str:
    if type(key) is not str:
        raise InvalidEvent(f"{path} has the key {key!r:.80}: keys are text", field=path)
    return frozen_text(key, path)


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """The one JSON text of frozen data: keys sorted, no spaces."""
    return _encoder.encode(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
