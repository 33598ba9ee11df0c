from __future__ import annotations

import math

import pytest

from engine.camera.algebra import (
    IDENTITY,
    Pose,
    between,
    compose,
    pose_of,
    quaternion_of,
    rotation_from,
    rotation_of,
    slerp,
    translation_of,
)
from engine.camera.commands import rigid_problem
from engine.camera.integrate import Camera, approach, press, shift

# The recorded poses are compared in test_verify; here are the rules one by one.


def held(keys: str, times: int = 1, start: Camera | None = None) -> Camera:
    camera = start or Camera()
    for _ in range(times):
        camera = press(camera, set(keys))
    return camera


def test_forward_goes_along_z_and_right_along_x() -> None:
    assert translation_of(held("w").pose) == pytest.approx((0, 0, 0.05), abs=1e-7)
    assert translation_of(held("d").pose) == pytest.approx((0.05, 0, 0), abs=1e-7)
    assert translation_of(held("sa").pose) == pytest.approx((-0.05, 0, -0.05), abs=1e-7)


def test_opposed_keys_cancel() -> None:
    assert held("wsadikjl").pose == IDENTITY


def test_a_turn_comes_before_the_step() -> None:
    x, y, z = translation_of(held("wl").pose)
    assert (x, y, z) == pytest.approx(
        (0.05 * math.sin(math.radians(6)), 0, 0.05 * math.cos(math.radians(6))), abs=1e-6
    )


def test_looking_up_does_not_lift_the_step() -> None:
    assert translation_of(held("w", start=held("i", 10)).pose) == pytest.approx((0, 0, 0.05), abs=1e-6)


def test_looking_up_turns_the_view_towards_negative_y() -> None:
    assert held("i").pose[1][2] == pytest.approx(-math.sin(math.radians(4)))


def test_a_pitch_step_past_the_limit_is_dropped_not_clamped() -> None:
    top = held("i", 40)
    assert top.pitch == 84
    assert held("k", start=top).pitch == 80


def test_a_dropped_pitch_step_still_yaws_and_moves() -> None:
    top = held("i", 21)
    after = held("ilw", start=top)
    assert after.pitch == 84
    assert after.pose != top.pose


def test_sixty_right_turns_are_a_full_circle() -> None:
    turned = held("l", 60)
    for row, expected in zip(turned.pose, IDENTITY, strict=True):
        assert row == pytest.approx(expected, abs=1e-12)


def test_a_camera_at_a_pose_knows_its_pitch() -> None:
    looking = held("ill", 5)
    assert Camera.at(looking.pose).pitch == pytest.approx(looking.pitch)


def test_a_delta_is_composed_on_the_right_in_world_units() -> None:
    turned = held("l", 15)  # facing +x
    moved = shift(turned, pose_of(((1, 0, 0), (0, 1, 0), (0, 0, 1)), (0.0, 0.0, 2.0)))
    assert translation_of(moved.pose) == pytest.approx((2, 0, 0), abs=1e-9)


def test_a_target_is_reached_in_even_steps() -> None:
    target = compose(held("l", 10).pose, pose_of(((1, 0, 0), (0, 1, 0), (0, 0, 1)), (1.0, 2.0, 3.0)))
    camera, yaws = Camera(), []
    for left in (4, 3, 2, 1):
        camera = approach(camera, target, 1 / left)
        yaws.append(math.degrees(math.atan2(camera.pose[0][2], camera.pose[2][2])))
    assert yaws == pytest.approx([15, 30, 45, 60])
    assert camera.pose == target


@pytest.mark.parametrize("keys", ["l" * 1, "il", "kj", "i"])
@pytest.mark.parametrize("times", [1, 17, 20])
def test_quaternions_and_rotations_turn_into_one_another(keys: str, times: int) -> None:
    rotation = rotation_of(held(keys, times).pose)
    back = rotation_from(quaternion_of(rotation))
    for row, expected in zip(back, rotation, strict=True):
        assert row == pytest.approx(expected, abs=1e-12)


def test_half_turns_have_quaternions_too() -> None:
    for diagonal in ((1, -1, -1), (-1, 1, -1), (-1, -1, 1)):
        a, b, c = diagonal
        rotation = ((float(a), 0.0, 0.0), (0.0, float(b), 0.0), (0.0, 0.0, float(c)))
        for row, expected in zip(rotation_from(quaternion_of(rotation)), rotation, strict=True):
            assert row == pytest.approx(expected, abs=1e-12)


def test_slerp_takes_the_shorter_arc() -> None:
    a = quaternion_of(rotation_of(held("l", 2).pose))
    b = quaternion_of(rotation_of(held("j", 2).pose))
    longer = (-b[0], -b[1], -b[2], -b[3])
    assert slerp(a, longer, 0.5) == pytest.approx(quaternion_of(rotation_of(IDENTITY)), abs=1e-12)


def test_between_two_poses_nothing_is_bent() -> None:
    a, b = held("wl", 3).pose, held("wi", 9).pose
    for step in range(11):
        middle: Pose = between(a, b, step / 10)
        assert rigid_problem(middle) is None
    assert between(a, b, 1.0) == b
