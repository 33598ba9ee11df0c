"""Recorded chunks as they lie in a file, one after the other: a head, what is said of it, its frames."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict
from typing import Any, BinaryIO, Final

from engine.api import EncodedChunk
from sessions.recordings import RecordedChunk

_MAGIC: Final = b"WLC1"
_HEAD: Final = struct.Struct(">4sIQ32s")  # magic, bytes of JSON, bytes of frames, SHA-256 of both


def record_of(chunk: RecordedChunk) -> bytes:
    """One record."""
    media = asdict(chunk.media)
    frames = media.pop("frames")
    about = {**media, "epoch": chunk.epoch, "chunk_index": chunk.chunk_index}
    said = json.dumps({**about, "sizes": [len(frame) for frame in frames]}).encode()
    body = b"".join((said, *frames))
    return _HEAD.pack(_MAGIC, len(said), len(body) - len(said), hashlib.sha256(body).digest()) + body


def read_record(file: BinaryIO) -> RecordedChunk | None:
    """The record at the file's position; None at its end. Raises `ValueError` for a torn or damaged one."""
    head = file.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise ValueError("a record begins with its head")
    _, said, rest, checksum = _HEAD.unpack(head)
    body = file.read(said + rest)
    if len(body) < said + rest:
        raise ValueError(f"a record of {said + rest} bytes ends after {len(body)}")
    if hashlib.sha256(body).digest() != checksum:
        raise ValueError("the checksum of a record is wrong")
    return _chunk(json.loads(body[:said]), memoryview(body)[said:])


def _chunk(about: dict[str, Any], frames: memoryview) -> RecordedChunk:
    cut, end = [], 0
    for size in about.pop("sizes"):
        cut.append(bytes(frames[end : end + size]))
        end += size
    place = about.pop("epoch"), about.pop("chunk_index")
    return RecordedChunk(*place, EncodedChunk(frames=tuple(cut), **about))
