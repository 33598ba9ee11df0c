"""The camera's state machine: what each control makes of the blocks that follow."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
from camera_controls import LENS, REDUCER, STILL, TRAJECTORY, actions, blocks, hold, keys, pose, script, se3
from hypothesis import given
from hypothesis import strategies as st

from engine.api import Control, FrozenJson
from engine.camera.algebra import compose, translation_of
from engine.camera.integrate import Camera, press
from engine.camera.motion import follow


def test_nothing_is_held_at_first() -> None:
    assert keys(count=1) == [STILL]


def test_held_keys_stay_held_until_changed() -> None:
    assert keys(hold("w"), count=3) == [[["w"]] * 3] * 3


def test_keys_are_case_insensitive_and_count_once() -> None:
    assert keys(hold("WwL"), count=1) == [[["w", "l"]] * 3]


def test_a_tap_without_timestamps_pulses_on_the_first_latent_frame() -> None:
    assert keys(hold("w", "")) == [[["w"], [], []], STILL]


def test_the_last_non_empty_transition_pulses() -> None:
    assert keys(hold("w", "a", "")) == [[["a"], [], []], STILL]


def test_taps_of_several_events_before_a_block_all_pulse() -> None:
    assert keys(hold("w"), hold("wl"), hold("w")) == [[["w", "l"], ["w"], ["w"]], [["w"]] * 3]


def test_with_timestamps_each_latent_frame_gets_its_time_slice() -> None:
    held = hold("w", "a", "d", at=(1000, 1250, 1500))
    assert keys(held) == [[["w"], ["a"], ["d"]], [["d"]] * 3]


def test_slices_begin_at_the_first_timestamp() -> None:
    assert keys(hold("w", "", at=(10**12, 10**12 + 250))) == [[["w"], [], []], STILL]


def test_a_key_held_in_part_of_a_slice_is_held_in_it() -> None:
    assert keys(hold("w", "", at=(0, 300))) == [[["w"], ["w"], []], STILL]


def test_a_tap_shorter_than_a_slice_counts_once_where_most_of_it_lies() -> None:
    assert keys(hold("", "l", "", at=(0, 300, 310))) == [[[], ["l"], []], STILL]
    assert keys(hold("", "l", "", at=(0, 200, 320))) == [[[], ["l"], []], STILL]


def test_a_tap_of_no_length_still_counts() -> None:
    assert keys(hold("l", "", at=(0, 0))) == [[["l"], [], []], STILL]


def test_a_tap_after_the_block_is_not_lost() -> None:
    assert keys(hold("", "l", "", at=(0, 5000, 5010))) == [[[], [], ["l"]], STILL]


def test_a_press_late_in_the_block_goes_on_in_the_next() -> None:
    assert keys(hold("", "w", at=(0, 900))) == [STILL, [["w"]] * 3]


def test_several_timestamped_events_share_one_timeline() -> None:
    events = hold("w", at=(1000,)), hold("wl", at=(1250,)), hold("w", at=(1300,))
    assert keys(*events) == [[["w"], ["w", "l"], ["w"]], [["w"]] * 3]


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.lists(st.sampled_from("wasdijkl"), max_size=2)),
        min_size=1,
        max_size=8,
    )
)
def test_every_key_that_was_pressed_reaches_a_latent_frame(steps: list[tuple[int, list[str]]]) -> None:
    time, items = 1000, []
    for wait, held in steps:
        time += wait
        items.append({"actions": held, "client_ts_ms": time})
    played = keys(actions({"mode": "state", "transitions": items}), count=2)
    pressed = {key for _, held in steps for key in held}
    assert {key for block in played for frame in block for key in frame} == pressed
    assert played[1] == [sorted(set(steps[-1][1]), key="wasdijkl".index)] * 3


def test_a_script_is_a_queue_of_three_per_block_padded_with_nothing() -> None:
    assert keys(script("w", "a", "s", "d"), count=3) == [[["w"], ["a"], ["s"]], [["d"], [], []], STILL]


def test_a_new_script_replaces_the_old() -> None:
    assert keys(script("w", "w", "w", "w"), script("a"), count=2) == [[["a"], [], []], STILL]


def test_a_switch_of_mode_clears_held_keys() -> None:
    assert keys(hold("w"), script("a"), count=2) == [[["a"], [], []], STILL]
    assert keys(hold("w"), script("a"), hold(""), count=1) == [STILL]


def test_a_trajectory_is_consumed_once_resampled_to_the_block() -> None:
    poses = [pose(0, 0, z) for z in range(5)]
    control = Control("camera", TRAJECTORY, {"poses": poses, "intrinsics": [[500, 500, 416, 240]] * 5})
    first, second = blocks(control)
    assert [motion["pose"][2][3] for motion in first] == [0, 2, 4]
    assert [motion["intrinsics"] for motion in first] == [(500, 500, 416, 240)] * 3
    assert [list(motion["keys"]) for motion in second] == STILL


def test_a_trajectory_lies_in_the_frame_of_the_sessions_origin() -> None:
    origin = press(press(Camera(), {"l"}), {"w"}).pose
    control = Control("camera", TRAJECTORY, {"poses": [pose(1, 2, 3)], "intrinsics": [[416, 480, 416, 240]]})
    path = follow(Camera.at(origin), blocks(control, count=1)[0], LENS, origin)
    assert path.poses[2] == compose(origin, tuple(map(tuple, pose(1, 2, 3))))  # type: ignore[arg-type]
    assert path.intrinsics[0] == (80, 96, 80, 48)


def test_velocity_is_composed_once_per_latent_frame_until_replaced() -> None:
    path = follow(Camera(), blocks(se3("velocity", [0, 1, 2], [0, 0, 0, 1]))[1], LENS)
    assert [translation_of(one) for one in path.poses] == [(0, -1, 2), (0, -2, 4), (0, -3, 6)]


def test_turning_about_the_vertical_axis_is_the_same_in_both_frames() -> None:
    half = 0.5**0.5
    path = follow(Camera(), blocks(se3("velocity", [0, 0, 0], [0, half, 0, half]))[0], LENS)
    assert path.poses[0][0][2] == pytest.approx(1)  # a quarter turn: forward is +x


def test_a_turn_up_about_x_is_up_in_both_frames() -> None:
    half = 0.5**0.5
    path = follow(Camera(), blocks(se3("velocity", [0, 0, 0], [-half, 0, 0, half]))[0], LENS)
    assert path.poses[0][1][2] == pytest.approx(-1)  # forward is -y, which is up


@pytest.mark.parametrize(("chunks", "frames"), [(None, 3), (1, 3), (2, 6), (0, 1)])
def test_a_target_is_reached_over_its_chunks_and_then_held(chunks: int | None, frames: int) -> None:
    camera, reached = Camera(), []
    for motions in blocks(se3("target", [0, 0, 6], [0, 0, 0, 1], chunks), count=3):
        path = follow(camera, motions, LENS)
        camera = path.cameras[-1]
        reached += [translation_of(one)[2] for one in path.poses]
    assert reached == pytest.approx([min(1, (n + 1) / frames) * 6 for n in range(9)])


def test_keys_after_a_target_go_on_from_where_it_led() -> None:
    camera = follow(Camera(), blocks(se3("target", [0, 0, 6], [0, 0, 0, 1]))[0], LENS).cameras[-1]
    path = follow(camera, blocks(hold("w"))[0], LENS)
    assert translation_of(path.poses[0]) == pytest.approx((0, 0, 6.05), abs=1e-6)


def test_states_are_never_changed_in_place() -> None:
    state = REDUCER.initial()
    for control in (
        hold("w", at=(5,)),
        script("a", "d"),
        se3("velocity", [0, 0, 1], [0, 0, 0, 1]),
    ):
        before = copy.deepcopy(state)
        after = REDUCER.apply(state, control)
        again = REDUCER.apply(state, control)
        assert state == before
        assert after == again
        kept = copy.deepcopy(after)
        assert REDUCER.advance(after) == REDUCER.advance(after)
        assert after == kept
        state = after


@pytest.mark.parametrize(
    ("control", "lasts"),
    [
        (script("w", "a", "d", "w"), 2),
        (script(), 1),
        (se3("target", [0, 0, 1], [0, 0, 0, 1]), 1),
        (se3("target", [0, 0, 1], [0, 0, 0, 1], chunks=0), 1),
        (se3("target", [0, 0, 1], [0, 0, 0, 1], chunks=4), 4),
        (Control("camera", TRAJECTORY, {"poses": [pose(0, 0, 1)], "intrinsics": [[500, 500, 416, 240]]}), 1),
    ],
)
def test_a_control_is_spent_with_the_last_block_that_it_moves(control: Control, lasts: int) -> None:
    state = REDUCER.apply(REDUCER.initial(), control)
    spent = []
    for _ in range(lasts + 1):
        spent.append(REDUCER.spent(state))
        state, _ = REDUCER.advance(state)
    assert spent == [False] * lasts + [True]
    assert REDUCER.spent(state)
    assert REDUCER.advance(state)[1] == tuple({"keys": ()} for _ in range(3))
    assert keys_after(state, hold("w")) == [["w"]] * 3


def keys_after(state: FrozenJson, control: Control) -> list[list[str]]:
    return [list(motion["keys"]) for motion in blocks(control, count=1, state=state)[0]]


@pytest.mark.parametrize("control", [hold("w"), hold(""), se3("velocity", [0, 0, 1], [0, 0, 0, 1])])
def test_a_control_that_lasts_until_it_is_replaced_is_never_spent(control: Control) -> None:
    state = REDUCER.apply(REDUCER.initial(), control)
    for _ in range(20):
        state, _ = REDUCER.advance(state)
        assert not REDUCER.spent(state)


def test_the_reducer_imports_no_torch() -> None:
    code = "import sys, engine.camera.reducer; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
