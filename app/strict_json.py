"""JSON as the wire allows it: no repeated keys, no NaN, no bottomless nesting, no endless integers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from app.refusals import InvalidField, NotJson, shortened

MAX_DEPTH = 32
MAX_INTEGER = 2**63 - 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class _RepeatedKey(ValueError):
    pass


def parse(text: str | bytes) -> Json:
    """The value of `text`. Raises `NotJson`, or `InvalidField` where it holds what the wire can't carry."""
    try:
        value: Json = json.loads(text, object_pairs_hook=_object)
    except _RepeatedKey as error:
        raise InvalidField(str(error), "the key is repeated; a key may stand once") from None
    except RecursionError:
        raise NotJson(f"not JSON: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise NotJson(f"not JSON: {error}; got {shortened(_head(text))}") from None
    _check(value)
    return value


def parse_object(text: str | bytes) -> dict[str, Json]:
    """Like `parse`, for a text that must be an object."""
    value = parse(text)
    if not isinstance(value, dict):
        raise NotJson(f"not a JSON object; got {shortened(_head(text))}")
    return value


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKey(shortened(key).strip("'"))
            seen.add(key)
    return result


def _head(text: str | bytes) -> str:
    return text[:200].decode(errors="replace") if isinstance(text, bytes) else text[:200]


def _check(value: Json) -> None:
    """Walk iteratively, so that no input can exhaust the interpreter's stack."""
    pending: list[tuple[str, int, Json]] = [("", 0, value)]
    while pending:
        path, depth, item = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidField(path, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(item, dict | list):
            pending.extend((child, depth + 1, inner) for child, inner in _children(path, item))
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidField(path or "value", f"must be a finite number; got {item}")
        elif isinstance(item, int) and abs(item) > MAX_INTEGER:
            raise InvalidField(
                path or "value", f"must fit in 64 bits; got a number of {len(str(item))} digits"
            )
        elif isinstance(item, str) and not item.isascii():
            _check_text(path or "value", item)


def _children(path: str, item: dict[str, Json] | list[Json]) -> Iterator[tuple[str, Json]]:
    if isinstance(item, list):
        return ((f"{path}[{index}]", inner) for index, inner in enumerate(item))
    return ((f"{path}.{key}" if path else key, inner) for key, inner in item.items())


def _check_text(path: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidField(path, "must be valid Unicode; got a lone surrogate") from None
