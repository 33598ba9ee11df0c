"""Messages as they lie in the pipe: each behind its length; those of every chunk as plain tuples.

Both ends belong to this program and share a machine; nothing that a client sent is ever unpickled. Whoever
packs a chunk's message does it just after the model has swept the processor's caches, and then the pickle of
a class, by its name and its fields, takes several times as long as that of a tuple.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from engine.api import Control, EncodedChunk, StageTimes, Tick
from engine.worker.messages import Committed, Ready, Run

_LENGTH: Final = struct.Struct(">Q")


def dump(message: object) -> bytes:
    """A message as it lies in the pipe."""
    pack = _PACK.get(type(message))
    body = pickle.dumps(message if pack is None else pack(message), pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def _load(body: memoryview) -> object:
    content = pickle.loads(body)
    return _UNPACK[content[0]](*content[1:]) if type(content) is tuple else content


class Frames:
    """Cuts what arrives into messages, wherever the pipe has parted them."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """What is complete with these bytes, in order."""
        self._rest += data
        messages, start = [], 0
        with memoryview(self._rest) as view:
            while (body := start + _LENGTH.size) <= len(view):
                (length,) = _LENGTH.unpack_from(view, start)
                if body + length > len(view):
                    break
                start = body + length
                messages.append(_load(view[body:start]))
        del self._rest[:start]
        return messages


def _fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all fields of a frozen message, in the order of its constructor."""
    return attrgetter(*[field.name for field in fields(kind)])


_tick, _control = _fields_of(Tick), _fields_of(Control)
_media, _times = _fields_of(EncodedChunk), _fields_of(StageTimes)


def _pack_run(run: Run) -> tuple[Any, ...]:
    *head, controls, conditioning = _tick(run.tick)
    plain = [_control(control) for control in controls]
    return 0, run.call, run.slack_s, head, plain, dict(conditioning)


def _unpack_run(call: int, slack_s: float | None, head: Any, controls: Any, conditioning: Any) -> Run:
    sticky = tuple([Control(*control) for control in controls])
    return Run(call, Tick(*(*head, sticky, conditioning)), slack_s)


def _pack_ready(ready: Ready) -> tuple[Any, ...]:
    return 1, ready.call, ready.request_id, _media(ready.media), _times(ready.times)


def _unpack_ready(call: int, request_id: str, media: Any, times: Any) -> Ready:
    return Ready(call, request_id, EncodedChunk(*media), StageTimes(*times))


def _pack_committed(committed: Committed) -> tuple[Any, ...]:
    return 2, committed.call, committed.request_id, committed.commit_ms


_PACK: Final[dict[type, Callable[[Any], tuple[Any, ...]]]] = {
    Run: _pack_run,
    Ready: _pack_ready,
    Committed: _pack_committed,
}
_UNPACK: Final[tuple[Callable[..., object], ...]] = (_unpack_run, _unpack_ready, Committed)
