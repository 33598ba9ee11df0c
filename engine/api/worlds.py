"""What an engine tells of a world between its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorldSnapshot:
    """A world after its last committed chunk, as one file (safetensors) that says what it is of.

    It restores in any engine with the same model and kind of device. `chunks` is how many were committed
    since the epoch began: the index of the next one.
    """

    world: str
    chunks: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WorldLedger:
    """What a world's caches hold, and the facts that it follows from, in the order in which they came true.

    Each fact is its name (`fact`: opened, build_began, published, ...) and its fields. A closed world has one
    summary. `balanced`: over the whole device, the facts fold to the live state, whose bytes are those that
    the allocators have out.
    """

    world: str
    facts: tuple[Mapping[str, str | int], ...]
    live_bytes: int  # published and not released
    balanced: bool
