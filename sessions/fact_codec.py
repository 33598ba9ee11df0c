"""Facts as JSON text, and back. The image of a start is bytes, and is kept beside the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from engine.api import Control, Tick
from sessions import facts
from sessions.conditions import Conditions
from sessions.errors import InvalidEvent, JournalCorrupt
from sessions.events import Event
from sessions.facts import Fact
from sessions.frozen import FrozenDict, canonical, freeze
from sessions.spec import Format, Mode, Pacing, SessionSpec

_KINDS: dict[str, type[Fact]] = {
    "opened": facts.SessionOpened,
    "event": facts.EventAccepted,
    "begun": facts.ChunkBegun,
    "committed": facts.ChunkCommitted,
    "failed": facts.SessionFailed,
    "reset": facts.SessionReset,
    "rewound": facts.SessionRewound,
    "suspended": facts.SessionSuspended,
    "cleanup_failed": facts.CleanupFailed,
    "closed": facts.SessionClosed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def kind_of(fact: Fact) -> str:
    """The short name of its kind, e.g. `committed`."""
    return _NAMES[type(fact)]


def encode(fact: Fact) -> str:
    """Its content as JSON text; a start's image is left out."""
    return canonical(as_json(fact))


def as_json(fact: Fact) -> dict[str, Any]:
    """Its content as JSON data; a start's image is left out."""
    if isinstance(fact, facts.SessionOpened):
        fact = replace(fact, spec=replace(fact.spec, image=None))
    content: dict[str, Any] = plain(fact)
    return content


def plain(value: Any) -> Any:
    """Dataclasses as dicts, as `dataclasses.asdict`; but what is frozen JSON already is taken as it is."""
    kind = type(value)
    if kind is tuple:
        return [plain(item) for item in value]
    names = _FIELDS.get(kind)
    if names is None:
        if not is_dataclass(kind):
            return value
        names = _FIELDS[kind] = tuple([field.name for field in fields(kind)])
    return {name: plain(getattr(value, name)) for name in names}


_FIELDS: dict[type[Any], tuple[str, ...]] = {}  # of the dataclasses that facts are made of


def decode(kind: str, text: str, image: bytes | None = None) -> Fact:
    """The fact that was encoded; raises `JournalCorrupt` where it can't be understood."""
    try:
        content = freeze(json.loads(text))
        return _READERS[kind](content, image)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, InvalidEvent) as error:
        raise JournalCorrupt(f"a {kind!r} fact can't be read: {error!r}") from error


Json = Mapping[str, Any]


def _control(data: Json) -> Control:
    return Control(data["track"], data["schema"], data["data"])


def _controls(data: Any) -> tuple[Control, ...]:
    return tuple(map(_control, data))


def event_of(data: Json) -> Event:
    """The event that was `plain`."""
    return Event(data["event_id"], data["prompt"], _controls(data["controls"]))


def _tick(data: Json) -> Tick:
    conditioning = FrozenDict(data["conditioning"])
    return Tick(**{**data, "controls": _controls(data["controls"]), "conditioning": conditioning})


def _spec(data: Json, image: bytes | None) -> SessionSpec:
    values = dict(data)
    values["image"] = image
    values["mode"] = Mode(data["mode"])
    values["format"] = Format(data["format"])
    values["pacing"] = Pacing(**data["pacing"])
    values["script"] = None if data["script"] is None else _control(data["script"])
    return SessionSpec(**values)


def conditions_of(data: Json) -> Conditions:
    """The conditions that were `plain`."""
    controls, states, sources = _controls(data["controls"]), data["states"], data["sources"]
    return Conditions(data["prompt"], controls, states, sources)


def _origin(data: Json | None) -> facts.Origin | None:
    return None if data is None else facts.Origin(**{**data, "conditions": conditions_of(data["conditions"])})


def _opened(data: Json, image: bytes | None) -> facts.SessionOpened:
    spec, origin = _spec(data["spec"], image), _origin(data.get("origin"))
    return facts.SessionOpened(data["session_id"], data["world"], spec, origin)


def _rewound(data: Json, _: bytes | None) -> facts.SessionRewound:
    return facts.SessionRewound(data["epoch"], data["chunks"], conditions_of(data["conditions"]))


def _flat(kind: type[Any]) -> Callable[[Json, bytes | None], Fact]:
    return lambda data, image: kind(**data)


_FLAT = ("committed", "failed", "reset", "suspended", "cleanup_failed", "closed")
_READERS: dict[str, Callable[[Json, bytes | None], Fact]] = {
    "opened": _opened,
    "event": lambda d, _: facts.EventAccepted(event_of(d["event"]), d["digest"], d["name"]),
    "begun": lambda d, _: facts.ChunkBegun(_tick(d["tick"]), d["frames_digest"], d["transport_index"]),
    "rewound": _rewound,
    **{name: _flat(_KINDS[name]) for name in _FLAT},
}
