"""Which controls a model takes."""

from __future__ import annotations

from collections.abc import Mapping

from engine.api import Control, ControlRefused, Reducer
from sessions.errors import InvalidControl


def check_control(control: Control, reducers: Mapping[str, Reducer], path: str) -> None:
    """Raise `InvalidControl` where no reducer can apply this control, which the client sent at `path`."""
    reducer = reducers.get(control.track)
    if reducer is None:
        known = ", ".join(sorted(reducers)) or "none"
        raise InvalidControl(f"track is {control.track!r:.80}: the model has {known}", field=f"{path}.track")
    if control.schema not in reducer.schemas:
        known = ", ".join(reducer.schemas)
        message = f"schema is {control.schema!r:.80}: track {control.track} takes {known}"
        raise InvalidControl(message, field=f"{path}.schema")
    try:
        reducer.validate(control)
    except ControlRefused as refused:
        field = f"{path}.{refused.field}"
        raise InvalidControl(refused.message, field=field, schema=control.schema) from refused
