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


def freeze(value: object, path: str = "data") -> FrozenJson:
    """A frozen copy of JSON-like data (what is frozen already is taken as it is).

    Raises `InvalidEvent` with the path of the first value that is not JSON: NaN or infinity, an integer over
    +-(2**53 - 1), a key that is not text, text that is not Unicode, other types, nesting deeper than 32.
    """
    try:
        return _freeze(value, DEEPEST)
    except _NotJson:
        _explain(value, path, DEEPEST)
        raise


class _NotJson(Exception):
    """Something in the data is not JSON; `_explain` finds out what, so that good data pays for no paths."""


def _freeze(value: object, levels: int) -> FrozenJson:
    kind = type(value)
    if kind is str:
        if value.isascii() or _is_unicode(value):  # type: ignore[attr-defined, arg-type]
            return value  # type: ignore[return-value]
    elif kind is int:
        if -LARGEST_INTEGER <= value <= LARGEST_INTEGER:  # type: ignore[operator]
            return value  # type: ignore[return-value]
    elif kind is float:
        if math.isfinite(value):  # type: ignore[arg-type]
            return value  # type: ignore[return-value]
    elif value is None or kind is bool or kind is FrozenDict:
        return value  # type: ignore[return-value]
    elif levels:
        if isinstance(value, (list, tuple)):
            return tuple([_freeze(item, levels - 1) for item in value])
        if isinstance(value, (dict, Mapping)):
            for key in value:
                if type(key) is not str or not (key.isascii() or _is_unicode(key)):
                    raise _NotJson
            return FrozenDict({key: _freeze(item, levels - 1) for key, item in value.items()})
    raise _NotJson


def _explain(value: object, path: str, levels: int) -> None:
    """Raise `InvalidEvent` for the first value in `value` that is not JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidEvent(f"{path} is {value}: give a finite number", field=path)
    if type(value) is int and abs(value) > LARGEST_INTEGER:
        raise InvalidEvent(f"{path} is too large an integer: give at most 2**53 - 1 in size", field=path)
    if isinstance(value, str):
        frozen_text(value, path)
    elif isinstance(value, list | tuple | Mapping):
        if not levels:
            raise InvalidEvent(f"{path} is nested deeper than {DEEPEST} levels", field=path)
        _explain_items(value, path, levels - 1)
    elif value is not None and type(value) not in (bool, int, float):
        raise InvalidEvent(f"{path} is a {type(value).__name__}: give JSON data", field=path)


def _explain_items(value: list[Any] | tuple[Any, ...] | Mapping[Any, Any], path: str, levels: int) -> None:
    if not isinstance(value, Mapping):
        for position, item in enumerate(value):
            _explain(item, f"{path}[{position}]", levels)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidEvent(f"{path} has the key {key!r:.80}: keys are text", field=path)
        frozen_text(key, path)
        _explain(item, f"{path}.{key}", levels)


def _is_unicode(text: str) -> bool:
    """False where it holds half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def frozen_text(value: object, path: str) -> str:
    """The text itself; raises `InvalidEvent` where it is none, or holds half of a surrogate pair."""
    if not isinstance(value, str):
        raise InvalidEvent(f"{path} is {value!r:.80}: give text", field=path)
    if not _is_unicode(value):
        raise InvalidEvent(f"{path} is not valid Unicode: it holds half of a surrogate pair", field=path)
    return value


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """The one JSON text of frozen data: keys sorted, no spaces."""
    return _encoder.encode(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
