"""What the camera refuses: by field, and without harm to what is held."""

from __future__ import annotations

from typing import Any

import pytest
from camera_controls import ACTIONS, REDUCER, SE3, TRAJECTORY, actions, blocks, hold, pose

from engine.api import Control, ControlRefused, FrozenJson

GOOD_POSE = pose(0, 0, 0)
GOOD_LENS = [500, 500, 416, 240]
STRETCHED = [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
MIRRORED = [[-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
SHEARED = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


def state_of(*items: Any) -> dict[str, Any]:
    return {"mode": "state", "transitions": list(items)}


def rigid(translation: Any, rotation: Any, **more: Any) -> dict[str, Any]:
    return {"mode": "target", "data": {"translation": translation, "rotation": rotation}, **more}


@pytest.mark.parametrize(
    ("schema", "data", "field"),
    [
        ("other.v1", {}, "schema"),
        (ACTIONS, None, "data"),
        (ACTIONS, [], "data"),
        (ACTIONS, {}, "data.mode"),
        (ACTIONS, {"mode": "held"}, "data.mode"),
        (ACTIONS, {"mode": 3}, "data.mode"),
        (ACTIONS, {"mode": "state"}, "data.transitions"),
        (ACTIONS, {"mode": "state", "transitions": []}, "data.transitions"),
        (ACTIONS, {"mode": "state", "transitions": {}}, "data.transitions"),
        (ACTIONS, {"mode": "state", "transitions": [], "extra": 1}, "data.extra"),
        (ACTIONS, {"mode": "state", "frames": []}, "data.transitions"),
        (ACTIONS, {"mode": "script", "transitions": []}, "data.frames"),
        (ACTIONS, {"mode": "script", "frames": [["w"], "w"]}, "data.frames[1]"),
        (ACTIONS, {"mode": "script", "frames": [["w"], ["x"]]}, "data.frames[1][0]"),
        (ACTIONS, {"mode": "script", "frames": [[]] * 5000}, "data.frames"),
        (ACTIONS, state_of({"actions": "w"}), "data.transitions[0].actions"),
        (ACTIONS, state_of({"actions": ["w", "wa"]}), "data.transitions[0].actions[1]"),
        (ACTIONS, state_of({"actions": [1]}), "data.transitions[0].actions[0]"),
        (ACTIONS, state_of({}), "data.transitions[0].actions"),
        (ACTIONS, state_of({"actions": [], "at": 1}), "data.transitions[0].at"),
        (ACTIONS, state_of({"actions": [], "client_ts_ms": -1}), "data.transitions[0].client_ts_ms"),
        (ACTIONS, state_of({"actions": [], "client_ts_ms": 1.5}), "data.transitions[0].client_ts_ms"),
        (ACTIONS, state_of({"actions": [], "client_ts_ms": True}), "data.transitions[0].client_ts_ms"),
        (
            ACTIONS,
            state_of({"actions": [], "client_ts_ms": 5}, {"actions": [], "client_ts_ms": 4}),
            "data.transitions[1].client_ts_ms",
        ),
        (
            ACTIONS,
            state_of({"actions": [], "client_ts_ms": 5}, {"actions": []}),
            "data.transitions[1].client_ts_ms",
        ),
        (
            ACTIONS,
            state_of({"actions": []}, {"actions": [], "client_ts_ms": 5}),
            "data.transitions[1].client_ts_ms",
        ),
        (TRAJECTORY, {"poses": [], "intrinsics": []}, "data.poses"),
        (TRAJECTORY, {"poses": [GOOD_POSE]}, "data.intrinsics"),
        (TRAJECTORY, {"poses": [GOOD_POSE], "intrinsics": [GOOD_LENS] * 2}, "data.intrinsics"),
        (TRAJECTORY, {"poses": [GOOD_POSE, GOOD_POSE[:3]], "intrinsics": [GOOD_LENS] * 2}, "data.poses[1]"),
        (TRAJECTORY, {"poses": [STRETCHED], "intrinsics": [GOOD_LENS]}, "data.poses[0]"),
        (TRAJECTORY, {"poses": [MIRRORED], "intrinsics": [GOOD_LENS]}, "data.poses[0]"),
        (TRAJECTORY, {"poses": [SHEARED], "intrinsics": [GOOD_LENS]}, "data.poses[0]"),
        (TRAJECTORY, {"poses": [pose(float("nan"), 0, 0)], "intrinsics": [GOOD_LENS]}, "data.poses[0][0][3]"),
        (TRAJECTORY, {"poses": [pose(1e300, 0, 0)], "intrinsics": [GOOD_LENS]}, "data.poses[0][0][3]"),
        (TRAJECTORY, {"poses": [GOOD_POSE], "intrinsics": [[0, 1, 1, 1]]}, "data.intrinsics[0][0]"),
        (TRAJECTORY, {"poses": [GOOD_POSE], "intrinsics": [[1, 1e-320, 1, 1]]}, "data.intrinsics[0][1]"),
        (TRAJECTORY, {"poses": [GOOD_POSE], "intrinsics": [[1, 1, 1]]}, "data.intrinsics[0]"),
        (SE3, {"mode": "target"}, "data.data"),
        (SE3, {"mode": "jump", "data": {}}, "data.mode"),
        (SE3, rigid([0, 0], [0, 0, 0, 1]), "data.data.translation"),
        (SE3, rigid([0, 0, "1"], [0, 0, 0, 1]), "data.data.translation[2]"),
        (SE3, rigid([0, 0, 0], [0, 0, 0, 0]), "data.data.rotation"),
        (SE3, rigid([0, 0, 0], [0, 0, float("inf"), 1]), "data.data.rotation[2]"),
        (SE3, rigid([0, 0, 0], [0, 0, 1]), "data.data.rotation"),
        (SE3, rigid([0, 0, 0], [0, 0, 0, 1], transition_chunks=-1), "data.transition_chunks"),
        (SE3, rigid([0, 0, 0], [0, 0, 0, 1], transition_chunks=1.0), "data.transition_chunks"),
        (SE3, rigid([0, 0, 0], [0, 0, 0, 1], speed=1), "data.speed"),
    ],
)
def test_a_bad_payload_is_refused_by_field_and_harms_nothing(schema: str, data: Any, field: str) -> None:
    control = Control("camera", schema, data)
    with pytest.raises(ControlRefused) as refusal:
        REDUCER.validate(control)
    assert refusal.value.field == field
    assert field in str(refusal.value)
    state = REDUCER.apply(REDUCER.initial(), hold("w"))
    with pytest.raises(ControlRefused):
        REDUCER.apply(state, control)
    assert keys_of(state) == [["w"]] * 3


def keys_of(state: FrozenJson) -> list[list[str]]:
    return [list(motion["keys"]) for motion in blocks(count=1, state=state)[0]]


def test_another_track_is_refused() -> None:
    with pytest.raises(ControlRefused, match="track"):
        REDUCER.validate(Control("sound", ACTIONS, {}))


def test_a_long_value_is_quoted_shortly() -> None:
    with pytest.raises(ControlRefused) as refusal:
        REDUCER.validate(actions({"mode": "x" * 10_000}))
    assert len(str(refusal.value)) < 200
