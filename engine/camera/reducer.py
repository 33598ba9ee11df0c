"""The camera's state machine: controls in, three motions per block out. Pure; runs in the server, without
torch.

A state is JSON-like, with the field `mode`: `hold`, `script`, `trajectory`, `velocity`, `target`, or `spent`
where one that ends has come to its end. A command of another mode begins a fresh state, so that held keys
never outlive a switch. A block's conditioning is a tuple with one motion per latent frame, each an object
with one of

- `keys`: list of held keys;
- `delta`: {translation, rotation}, composed on the right, in world units;
- `toward`: {translation, rotation, fraction}: go this fraction of what is left to a pose;
- `pose`: a 4x4 matrix, with `intrinsics` (fx, fy, cx, cy) in the 832x480 reference frame.

Poses are in the frame of the session's origin, y down; rotations are 3x3 rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.api import Control, FrozenJson
from engine.camera.algebra import Pose, rotation_of, translation_of
from engine.camera.commands import (
    KEYS,
    SCHEMAS,
    TRACK,
    Command,
    Hold,
    Keys,
    Script,
    Target,
    Trajectory,
    Velocity,
    read,
)
from engine.camera.resample import resample
from engine.camera.slices import keys_by_slice

State = Mapping[str, Any]
IDLE: State = {"mode": "hold", "held": (), "pulse": (), "timeline": ()}
SPENT: State = {"mode": "spent"}


class CameraReducer:
    """Implements `engine.api.Reducer` for the track `camera`."""

    track: str = TRACK
    schemas: tuple[str, ...] = SCHEMAS

    def __init__(self, frames_per_block: int = 3, latent_frame_ms: float = 250.0) -> None:
        """`latent_frame_ms`: how long a latent frame plays, 4 pixel frames at 16 fps."""
        self.frames = frames_per_block
        self.latent_frame_ms = latent_frame_ms
        self._last: tuple[Control, Command] | None = None

    def initial(self) -> FrozenJson:
        """No keys held."""
        return IDLE

    def validate(self, control: Control) -> None:
        """Raise `ControlRefused` where the payload can't be applied."""
        self._read(control)

    def apply(self, state: FrozenJson, control: Control) -> FrozenJson:
        """The state after `control`. Raises `ControlRefused`."""
        match self._read(control):
            case Hold() as hold:
                return _hold(_state(state), hold)
            case Script(frames):
                return {"mode": "script", "frames": frames}
            case Trajectory(poses, intrinsics):
                return {"mode": "trajectory", "poses": poses, "intrinsics": intrinsics}
            case Velocity(delta):
                return {"mode": "velocity", "delta": _rigid(delta)}
            case Target(pose, chunks):
                return {"mode": "target", "pose": _rigid(pose), "left": max(1, chunks * self.frames)}

    def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
        """Consume one block: the next state and one motion per latent frame."""
        current = _state(state)
        match current["mode"]:
            case "hold":
                return self._advance_hold(current)
            case "script":
                return self._advance_script(current)
            case "trajectory":
                poses, lenses = resample(current["poses"], current["intrinsics"], self.frames)
                motions = zip(poses, lenses, strict=True)
                return SPENT, tuple({"pose": pose, "intrinsics": lens} for pose, lens in motions)
            case "velocity":
                return current, ({"delta": current["delta"]},) * self.frames
            case "target":
                return self._advance_target(current)
            case mode:
                assert mode == "spent", mode
                return SPENT, _pressed(((),) * self.frames)

    def spent(self, state: FrozenJson) -> bool:
        """Whether a script has run out, a trajectory was followed, or a target is reached."""
        return bool(_state(state)["mode"] == "spent")

    def _read(self, control: Control) -> Command:
        """A control is mostly applied right after it was validated: read once for both."""
        if self._last is None or self._last[0] is not control:
            self._last = control, read(control)
        return self._last[1]

    def _advance_hold(self, state: State) -> tuple[FrozenJson, FrozenJson]:
        held, pulse = tuple(state["held"]), tuple(state["pulse"])
        if state["timeline"]:
            timeline = [(time, tuple(keys)) for time, keys in state["timeline"]]
            frames = keys_by_slice(timeline, self.frames, self.latent_frame_ms)
            first = _union(frames[0], pulse)
        else:
            frames = (held,) * self.frames
            first = pulse or held
        return {**IDLE, "held": held}, _pressed((first, *frames[1:]))

    def _advance_script(self, state: State) -> tuple[FrozenJson, FrozenJson]:
        frames = tuple(state["frames"])
        now = (*frames[: self.frames], *(((),) * self.frames))[: self.frames]
        left = frames[self.frames :]
        return {"mode": "script", "frames": left} if left else SPENT, _pressed(now)

    def _advance_target(self, state: State) -> tuple[FrozenJson, FrozenJson]:
        left: int = state["left"]
        motions: list[FrozenJson] = []
        for _ in range(self.frames):
            motions.append({"toward": {**state["pose"], "fraction": 1 / left}} if left else {"keys": ()})
            left = max(0, left - 1)
        return {**state, "left": left} if left else SPENT, tuple(motions)


def _hold(state: State, hold: Hold) -> FrozenJson:
    """Add an event's transitions to what is held; several events may come before a block."""
    before = state if state["mode"] == "hold" else IDLE
    timeline = tuple(before["timeline"])
    pulse = tuple(before["pulse"])
    last = timeline[-1][0] if timeline else 0
    if hold.times is not None:
        times = tuple(max(time, last) for time in hold.times)
        timeline += tuple(zip(times, hold.transitions, strict=True))
    elif timeline:
        timeline += tuple((last, keys) for keys in hold.transitions)
    else:
        pulse = _union(pulse, next((keys for keys in reversed(hold.transitions) if keys), ()))
    return {"mode": "hold", "held": hold.transitions[-1], "pulse": pulse, "timeline": timeline}


def _union(a: Keys, b: Keys) -> Keys:
    return tuple(key for key in KEYS if key in a or key in b)


def _pressed(frames: tuple[Keys, ...]) -> FrozenJson:
    return tuple({"keys": tuple(keys)} for keys in frames)


def _rigid(pose: Pose) -> FrozenJson:
    return {"translation": translation_of(pose), "rotation": rotation_of(pose)}


def _state(state: FrozenJson) -> State:
    assert isinstance(state, Mapping), "a reducer's state comes from the same reducer"
    return state
