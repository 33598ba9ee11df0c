"""What can be said about a cache: facts, in the order in which they came true.

An *owner* is whatever opens and closes as one (a session instance; the store of shared first chunks).
Within it, a *key* names a resource, and each build of it has a *generation* that no other build of the
ledger has.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Opened:
    """The owner may build from here on. `life` tells it from former owners of the same id."""

    owner: str
    life: int


@dataclass(frozen=True, slots=True)
class CloseBegan:
    """Nothing more is published; every build is superseded and every value hidden."""

    owner: str


@dataclass(frozen=True, slots=True)
class CleanupFailed:
    """A release raised: a tombstone that blocks the owner's id until a retried close succeeds."""

    owner: str
    cause: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Everything is released and the id is free."""

    owner: str


@dataclass(frozen=True, slots=True)
class BuildBegan:
    """A build of `key`: supersedes older builds of it, and hides a value of another identity."""

    owner: str
    key: str
    identity: str
    generation: int


@dataclass(frozen=True, slots=True)
class Published:
    """The build is whole and readable, and holds `bytes` of memory until it is released."""

    owner: str
    key: str
    generation: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Invalidated:
    """The build failed, or its value is hidden from now on."""

    owner: str
    key: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Leased:
    """A reader holds the value; it is not released before the reader returns it."""

    owner: str
    key: str
    generation: int
    lease: int
    holder: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The reader is done."""

    owner: str
    key: str
    generation: int
    lease: int


@dataclass(frozen=True, slots=True)
class Released:
    """The memory of a hidden value is back with the allocator."""

    owner: str
    key: str
    generation: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Carried:
    """An owner's counters up to here, in place of the facts that a compaction dropped."""

    owner: str
    builds: int
    released_bytes: int
    cleanup_failures: int
    newest_generation: int
    newest_lease: int


@dataclass(frozen=True, slots=True)
class ClosedSummary:
    """All that is kept of a closed owner."""

    owner: str
    builds: int
    released_bytes: int
    cleanup_failures: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What the dropped summaries amount to, and the highest numbers that were given out."""

    owners: int
    builds: int
    released_bytes: int
    cleanup_failures: int
    newest_generation: int
    newest_lease: int
    newest_life: int


OwnerFact = (
    Opened
    | CloseBegan
    | CleanupFailed
    | Closed
    | BuildBegan
    | Published
    | Invalidated
    | Leased
    | Returned
    | Released
    | Carried
)
Fact = OwnerFact | ClosedSummary | Totals


def told(fact: Fact) -> dict[str, str | int]:
    """A fact as JSON has it: its name in snake_case under `fact`, then its fields."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(fact).__name__).lower()
    return {"fact": name, **asdict(fact)}
