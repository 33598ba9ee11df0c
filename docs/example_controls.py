"""The example's reducer: what controls mean.

Pure, without torch: it runs in the server and refuses bad payloads there.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.api import Control, ControlRefused, FrozenJson

TRACK, SCHEMA = "wind", "example.wind.v1"


class WindReducer:
    """`{"x": 1, "y": 0}`: cells per latent frame, until it changes."""

    track: str = TRACK
    schemas: tuple[str, ...] = (SCHEMA,)

    def initial(self) -> FrozenJson:
        """Calm."""
        return {"x": 0, "y": 0}

    def validate(self, control: Control) -> None:
        """Two whole numbers from -3 to 3."""
        data = control.data
        if not isinstance(data, Mapping) or set(data) != {"x", "y"}:
            raise ControlRefused("data", f"data: got {data!r}, expected an object with x and y")
        for name, value in data.items():
            if not isinstance(value, int) or isinstance(value, bool) or not -3 <= value <= 3:
                raise ControlRefused(f"data.{name}", f"data.{name}: got {value!r}, expected -3 to 3")

    def apply(self, state: FrozenJson, control: Control) -> FrozenJson:
        """The new wind."""
        self.validate(control)
        return control.data

    def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
        """The wind blows on; a block is told of it as it is."""
        return state, state

    def spent(self, state: FrozenJson) -> bool:
        """Never: it blows until another takes its place."""
        return False
