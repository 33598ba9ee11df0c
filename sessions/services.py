"""What every session of a server shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.api import Engine, ModelCard, Reducer
from sessions.clock import Clock
from sessions.journal import Journal
from sessions.limits import Limits
from sessions.observer import Observer


@dataclass(frozen=True, slots=True)
class Services:
    """Handed from the manager to its sessions. `new_id` makes ids that no one can guess or meet again."""

    engine: Engine
    card: ModelCard
    journal: Journal
    reducers: Mapping[str, Reducer]
    clock: Clock
    limits: Limits
    observer: Observer
    new_id: Callable[[], str]
