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
        """Every reducer consumes one block: the conditions after it, and the block's conditioning.

        A control that is spent with it has no event as its source any more.
        """
        states: dict[str, FrozenJson] = {}
        blocks: dict[str, FrozenJson] = {}
        for track, reducer in reducers.items():
            states[track], block = reducer.advance(self.states[track])
            blocks[track] = block
        sources = self.sources
        spent = [track for track in sources if track != PROMPT and reducers[track].spent(states[track])]
        if spent:
            sources = {track: label for track, label in sources.items() if track not in spent}
        return Conditions(self.prompt, self.controls, states, sources), FrozenDict(blocks)

    def driven_by(self, script: Control, reducers: Mapping[str, Reducer]) -> bool:
        """Whether this control is in force and has more to do."""
        track = script.track
        return script in self.controls and not reducers[track].spent(self.states[track])


def opening(prompt: str | None, script: Control | None, reducers: Mapping[str, Reducer]) -> Conditions:
    """The conditions of a fresh session; `script` is a control to open with."""
    states = {track: reducer.initial() for track, reducer in reducers.items()}
    if script is None:
        return Conditions(prompt, (), states, {})
    states[script.track] = reducers[script.track].apply(states[script.track], script)
    return Conditions(prompt, (script,), states, {})


def marks(before: Conditions, after: Conditions, entries: Sequence[Entry]) -> EventMarks:
    """Which events a chunk starts, has in force, and completes: those replaced by it, or spent with it.

    `before` is what was in force before the chunk's events (`entries`), `after` behind the chunk.
    """
    active = tuple(dict.fromkeys(after.sources.values()))
    if not entries and after.sources is before.sources:
        return EventMarks((), active, ())
    started = tuple([entry.label for entry in entries])
    known = dict.fromkeys((*before.sources.values(), *started))
    return EventMarks(started, active, tuple([label for label in known if label not in active]))
