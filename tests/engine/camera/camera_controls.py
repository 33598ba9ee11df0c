"""Controls of the camera, and the motions that they lead to."""

from __future__ import annotations

from typing import Any

from engine.api import Control, FrozenJson
from engine.camera.intrinsics import default_at_size
from engine.camera.motion import Lens
from engine.camera.reducer import CameraReducer

ACTIONS = "lingbot.camera_actions.v1"
TRAJECTORY = "lingbot.camera_trajectory.v1"
SE3 = "vllm_omni.camera_se3.v1"
LENS = Lens(160, 96, default_at_size(None, 160, 96))
STILL = [[], [], []]
REDUCER = CameraReducer()


def actions(data: Any) -> Control:
    return Control("camera", ACTIONS, data)


def hold(*transitions: str, at: tuple[int, ...] | None = None) -> Control:
    items: list[dict[str, Any]] = [{"actions": list(keys)} for keys in transitions]
    for item, time in zip(items, at or (), strict=False):
        item["client_ts_ms"] = time
    return actions({"mode": "state", "transitions": items})


def script(*frames: str) -> Control:
    return actions({"mode": "script", "frames": [list(keys) for keys in frames]})


def se3(mode: str, translation: list[float], rotation: list[float], chunks: int | None = None) -> Control:
    data: dict[str, Any] = {"mode": mode, "data": {"translation": translation, "rotation": rotation}}
    if chunks is not None:
        data["transition_chunks"] = chunks
    return Control("camera", SE3, data)


def pose(x: float, y: float, z: float) -> list[list[float]]:
    return [[1, 0, 0, x], [0, 1, 0, y], [0, 0, 1, z], [0, 0, 0, 1]]


def blocks(*controls: Control, count: int = 2, state: FrozenJson = None) -> list[Any]:
    """The motions of the next blocks after some controls."""
    state = REDUCER.initial() if state is None else state
    for control in controls:
        state = REDUCER.apply(state, control)
    out = []
    for _ in range(count):
        state, motions = REDUCER.advance(state)
        out.append(motions)
    return out


def keys(*controls: Control, count: int = 2) -> list[list[list[str]]]:
    return [[list(motion["keys"]) for motion in block] for block in blocks(*controls, count=count)]


# ------------------------------------------------------------------------------------------------- held keys
