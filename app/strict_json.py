"""JSON as the wire allows it: no repeated keys, no NaN, nothing bottomless or endless."""

from __future__ import annotations

import json
import math

from app.refusals import InvalidField, MessageTooLarge, NotJson, shortened

MAX_DEPTH = 32
MAX_INTEGER = 2**63 - 1
LONGEST_NAME = 80  # characters of a key that an error repeats
MAX_VALUES = 65_536  # a message of 8 MiB may hold millions, which would keep the event loop for many seconds

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


Place = tuple["Place", str | int] | None  # a parent's place, and the key or index in it


class _RepeatedKey(ValueError):
    pass


def require_few_values(text: str | bytes) -> None:
    """Raises `MessageTooLarge`. Counts before anything is parsed, and separators in strings too."""
    if isinstance(text, bytes):
        most = 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
    else:
        most = 1 + text.count(",") + text.count("[") + text.count("{")
    if most > MAX_VALUES:
        raise MessageTooLarge(f"a message has at most {MAX_VALUES} values; got about {most}")


def parse(text: str | bytes) -> Json:
    """The value of `text`. Raises `NotJson`, `MessageTooLarge`, or `InvalidField` for what is not allowed."""
    require_few_values(text)
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
    pending: list[tuple[Place, int, Json]] = [(None, 0, value)]
    while pending:
        place, depth, item = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidField(_path(place), f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(item, dict):
            for key in item:
                if not key.isascii():
                    _check_text(place, key)  # before a path could name it
            pending.extend([((place, key), depth + 1, inner) for key, inner in item.items()])
        elif isinstance(item, list):
            pending.extend([((place, index), depth + 1, inner) for index, inner in enumerate(item)])
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidField(_path(place) or "value", f"must be a finite number; got {item}")
        elif isinstance(item, int) and abs(item) > MAX_INTEGER:
            raise InvalidField(
                _path(place) or "value", f"must fit in 64 bits; got a number of {len(str(item))} digits"
            )
        elif isinstance(item, str) and not item.isascii():
            _check_text(place, item)


def _path(place: Place) -> str:
    path = ""
    while place is not None:
        place, part = place
        path = (f"[{part}]" if isinstance(part, int) else f".{part[:LONGEST_NAME]}") + path
    return path.removeprefix(".")


def _check_text(place: Place, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidField(_path(place) or "value", "must be valid Unicode; got a lone surrogate") from None
