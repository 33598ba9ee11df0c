"""What the next chunk is computed from: the sticky prompt and controls, and the reducers' states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.api import Control, FrozenJson, Reducer
from sessions.entry import Entry
from sessions.frozen import FrozenDict

PROMPT = ""  # the prompt's place among the tracks; no track has an empty name


@dataclass(frozen=True, slots=True)
class EventMarks:
    """What a chunk says of events, by the ids that the client knows them by."""

    started: tuple[str, ...]
    active: tuple[str, ...]
    completed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Never changed in place, so that a rollback just keeps the old one."""

    prompt: str | None
    controls: tuple[Control, ...]  # in the order of their tracks
    states: Mapping[str, FrozenJson]  # track -> its reducer's state
    sources: Mapping[str, str]  # track (or PROMPT) -> the label of the event that set it

    def after(self, entries: Sequence[Entry], reducers: Mapping[str, Reducer]) -> Conditions:
        """The conditions once these events, in this order, are applied."""
        prompt, states, sources = self.prompt, dict(self.states), dict(self.sources)
        controls = {control.track: control for control in self.controls}
        for entry in entries:
            if entry.event.prompt is not None:
                prompt = entry.event.prompt
                sources[PROMPT] = entry.label
            for control in entry.event.controls:
                track = control.track
                states[track] = reducers[track].apply(states[track], control)
                controls[track] = control
                sources[track] = entry.label
        ordered = tuple([controls[track] for track in sorted(controls)])
        return Conditions(prompt, ordered, states, sources)

    def advanced(self, reducers: Mapping[str, Reducer]) -> tuple[Conditions, FrozenDict]:
        """Every reducer consumes one block: the conditions after it, and the block's conditioning."""
        states: dict[str, FrozenJson] = {}
        blocks: dict[str, FrozenJson] = {}
        for track, reducer in reducers.items():
            states[track], block = reducer.advance(self.states[track])
            blocks[track] = block
        return Conditions(self.prompt, self.controls, states, self.sources), FrozenDict(blocks)


def opening(prompt: str | None, script: Control | None, reducers: Mapping[str, Reducer]) -> Conditions:
    """The conditions of a fresh session; `script` is a control to open with."""
    states = {track: reducer.initial() for track, reducer in reducers.items()}
    if script is None:
        return Conditions(prompt, (), states, {})
    states[script.track] = reducers[script.track].apply(states[script.track], script)
    return Conditions(prompt, (script,), states, {})


def marks(before: Conditions, after: Conditions, entries: Sequence[Entry]) -> EventMarks:
    """Which events a chunk starts, has in force, and completes (by having them replaced)."""
    active = tuple(dict.fromkeys(after.sources.values()))
    if not entries:
        return EventMarks((), active, ())
    started = tuple([entry.label for entry in entries])
    known = dict.fromkeys((*before.sources.values(), *started))
    return EventMarks(started, active, tuple([label for label in known if label not in active]))
