"""How many sessions fit into the memory that is there, and what the plan weighs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from decimal import Decimal
from typing import Any

from kvcache.errors import CapacityError, GeometryRefused
from kvcache.geometry import Geometry

SPARE_PAGES = 2
"""Pages kept beside the sessions' own, so that a rollback never waits for one."""


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """What was asked for, what fits, and what it takes; budgets and sizes in bytes."""

    requested: int
    effective: int
    configured_budget: int  # available * fraction
    budget: int  # at least what one session takes
    page_bytes: int
    managed_pages: int
    scratch_pages: int
    cross_bytes_per_session: int
    required_bytes: int

    def to_json(self) -> str:
        """The plan as one JSON line, fields in this order."""
        return json.dumps(asdict(self))


def managed_pages(geometry: Geometry, sessions: int) -> int:
    """Pages for `sessions` full views, the one block in flight, and the spare ones."""
    per_branch = sessions * geometry.view_frames + geometry.frames_per_block
    return geometry.branches * per_branch + SPARE_PAGES


def scratch_pages(geometry: Geometry) -> int:
    """Pages' worth of workspace for one block and for the largest scratch tensor."""
    extra = -(-geometry.max_scratch_tokens // geometry.tokens_per_frame)
    return geometry.branches * (geometry.frames_per_block + extra)


def session_bytes(geometry: Geometry) -> int:
    """Bytes that each session takes for itself: its view, its text, its codec histories."""
    return geometry.view_pages * geometry.page_bytes + geometry.cross_bytes + geometry.model_state_bytes


def shared_bytes(geometry: Geometry) -> int:
    """Bytes that sessions take once, together: the block in flight, spare pages, scratch."""
    pages = managed_pages(geometry, 0) + scratch_pages(geometry)
    return pages * geometry.page_bytes


def required_bytes(geometry: Geometry, sessions: int) -> int:
    """Bytes that `sessions` of one size take at once."""
    return required_together([geometry] * sessions)


def required_together(sessions: Sequence[Geometry]) -> int:
    """Bytes that sessions of several sizes take at once: one block is in flight at a time, of any of them."""
    return sum(map(session_bytes, sessions)) + max(map(shared_bytes, sessions), default=0)


def plan(geometry: Geometry, available: int, fraction: float, requested: int) -> CapacityPlan:
    """The largest number of sessions, at most `requested`, that `fraction` of `available` bytes can hold.

    One session always fits where the memory is there at all, whatever the fraction. Raises `CapacityError`
    with both figures where it is not, `GeometryRefused` for a fraction outside (0, 1] or a request below 1.
    """
    if not 0 < fraction <= 1:
        raise GeometryRefused("fraction", f"got {fraction}, must be above 0 and at most 1")
    if requested < 1:
        raise GeometryRefused("requested", f"got {requested}, must be at least 1")
    least = required_bytes(geometry, 1)
    if least > available:
        raise CapacityError(available, least)
    configured = int(available * Decimal(str(fraction)))  # exact: 0.1 of 10 bytes is 1 byte
    budget = max(configured, least)
    each = required_bytes(geometry, 2) - least
    effective = min(requested, 1 + (budget - least) // each)
    return CapacityPlan(
        requested=requested,
        effective=effective,
        configured_budget=configured,
        budget=budget,
        page_bytes=geometry.page_bytes,
        managed_pages=managed_pages(geometry, effective),
        scratch_pages=scratch_pages(geometry),
        cross_bytes_per_session=geometry.cross_bytes,
        required_bytes=required_bytes(geometry, effective),
    )


def geometry_from_json(text: str) -> Geometry:
    """A geometry from a JSON object of its fields.

    Raises `GeometryRefused` for text that is no object, and for unknown or missing fields, which it names.
    """
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, or an endless number
        raise GeometryRefused("geometry", f"not JSON: {error}") from None
    if not isinstance(data, Mapping):
        raise GeometryRefused("geometry", f"got {type(data).__name__}, must be a JSON object")
    known = {item.name for item in fields(Geometry)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise GeometryRefused(unknown[0], f"unknown field; allowed are {', '.join(sorted(known))}")
    missing = [item.name for item in fields(Geometry) if item.default is MISSING and item.name not in data]
    if missing:
        raise GeometryRefused(missing[0], f"missing; needed are {', '.join(missing)}")
    return Geometry(**data)


def plan_from_geometry(text: str, available: int, fraction: float, requested: int) -> str:
    """What `worldline capacity` prints: the plan as JSON, of a geometry in JSON. Raises as `plan` does."""
    return plan(geometry_from_json(text), available, fraction, requested).to_json()
