"""Controls, and what makes conditioning of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

FrozenJson = None | bool | int | float | str | tuple["FrozenJson", ...] | Mapping[str, "FrozenJson"]
"""JSON after acceptance: lists are tuples, objects are read-only mappings, every number is finite."""


@dataclass(frozen=True, slots=True)
class Control:
    """One control of an event, e.g. track `camera`, schema `lingbot.camera_actions.v1`."""

    track: str
    schema: str
    data: FrozenJson


class Reducer(Protocol):
    """Turns the controls of one track into the conditioning of each block.

    Pure: a state is JSON-like and never changed in place, so a rollback keeps the old one. A reducer imports
    no torch and runs in the server, where a payload is validated at acceptance.
    """

    track: str
    schemas: tuple[str, ...]

    def initial(self) -> FrozenJson:
        """The state of a fresh or reset session."""

    def validate(self, control: Control) -> None:
        """Raise `ControlRefused` where `control` could not be applied; looks at the payload alone."""

    def apply(self, state: FrozenJson, control: Control) -> FrozenJson:
        """The state after an accepted control."""

    def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
        """Consume one block: the next state, and its conditioning (what `Tick.conditioning` carries)."""

    def spent(self, state: FrozenJson) -> bool:
        """Whether the last control is done, e.g. a target is reached: it has no part in later blocks."""
