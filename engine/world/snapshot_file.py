"""A snapshot as bytes: a safetensors file whose header says what it is of, with a checksum over all of it.

Written and read here, in the standard library: the layout is a dozen lines, the pattern engine has no torch,
and every part is copied once. Any safetensors reader opens the file.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.api import SnapshotRefused

FORMAT: Final = 1

_LENGTH: Final = struct.Struct("<Q")
_BLANK: Final = "0" * 64  # stands where the checksum will be while it is computed
_CHECKSUM, _FACTS = "checksum", "worldline"
_ALIGNMENT: Final = 8


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor: its dtype in safetensors' words (`F32`, `BF16`, `U8`), and its elements in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview = field(repr=False)


def write_snapshot(facts: Mapping[str, object], parts: Mapping[str, Part]) -> bytes:
    """Facts are JSON; they come back as they are, with lists for tuples."""
    table: dict[str, object] = {
        "__metadata__": {_FACTS: json.dumps({"format": FORMAT, **facts}), _CHECKSUM: _BLANK}
    }
    end = 0
    for name, part in parts.items():
        begin, end = end, end + len(part.data)
        table[name] = {"dtype": part.dtype, "shape": part.shape, "data_offsets": (begin, end)}
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    datas = [part.data for part in parts.values()]
    return b"".join([_LENGTH.pack(len(header)), _sealed(header, _digest(header, *datas)), *datas])


def read_snapshot(data: bytes) -> tuple[dict[str, Any], dict[str, Part]]:
    """The facts and the parts, which are views of `data`. Raises `SnapshotRefused` for anything but a whole
    file of this format.
    """
    header, body = _split(data)
    try:
        table = json.loads(header)
        about = table.pop("__metadata__")
        checksum, facts = about[_CHECKSUM], json.loads(about[_FACTS])
        found = _digest(_sealed(header, _BLANK, checksum), body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotRefused(f"the snapshot's header can't be read: {error!r}") from None
    if found != checksum:
        raise SnapshotRefused(f"the snapshot is damaged: its checksum is {found}, expected {checksum}")
    if facts.get("format") != FORMAT:
        raise SnapshotRefused(f"the snapshot's format is {facts.get('format')!r}, expected {FORMAT}")
    return facts, {name: _part(entry, body) for name, entry in table.items()}


def require(facts: Mapping[str, Any], expected: Mapping[str, object]) -> None:
    """Raise `SnapshotRefused` for the first expected fact that differs."""
    for name, value in json.loads(json.dumps(expected)).items():
        if facts.get(name) != value:
            raise SnapshotRefused(f"the snapshot's {name} is {facts.get(name)!r}, expected {value!r}")


def _split(data: bytes) -> tuple[bytes, memoryview]:
    view = memoryview(data)
    length = _LENGTH.unpack(view[: _LENGTH.size])[0] if len(data) >= _LENGTH.size else 0
    if not 0 < length <= len(data) - _LENGTH.size:
        raise SnapshotRefused(f"the snapshot is cut short: it has {len(data)} bytes, its header {length}")
    start = _LENGTH.size + length
    return bytes(view[_LENGTH.size : start]), view[start:]


def _sealed(header: bytes, checksum: str, before: str = _BLANK) -> bytes:
    """The header with another checksum in its place."""
    old, new = (json.dumps({_CHECKSUM: value})[1:-1].encode() for value in (before, checksum))
    if len(before) != len(_BLANK) or header.count(old) != 1:
        raise ValueError("it has no single checksum")
    return header.replace(old, new)


def _digest(*pieces: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _part(entry: Mapping[str, Any], body: memoryview) -> Part:
    begin, end = entry["data_offsets"]
    return Part(entry["dtype"], tuple(entry["shape"]), body[begin:end])
