import numpy as np
import torch

from engine.camera.integrate import Camera, press
from engine.tiny.walks import PITCH_LIMIT, Stance, integrate, pixel_stances, poses_of, random_walk


def letters(keys: np.ndarray) -> str:
    forward, right, turning, looking = keys
    pairs = (("w", "s", forward), ("d", "a", right), ("l", "j", turning), ("i", "k", looking))
    return "".join(plus if value > 0 else minus for plus, minus, value in pairs if value)


def test_a_walk_integrates_as_the_camera_keys_do() -> None:
    walk = random_walk(np.random.default_rng(7), 60, Stance(0.0, 0.0, 0.0))
    camera = Camera()
    poses = []
    for keys in walk.keys:
        camera = press(camera, letters(keys))
        poses.append(camera.pose)
    expected = torch.tensor(poses, dtype=torch.float64)
    torch.testing.assert_close(poses_of(walk.stances)[1:], expected, atol=1e-5, rtol=0)


def test_pixel_frames_lead_from_the_start_through_every_later_stance() -> None:
    walk = random_walk(np.random.default_rng(8), 9)
    frames = pixel_stances(walk)
    assert len(frames) == 1 + 4 * 8
    assert np.array_equal(frames[0], walk.stances[0])
    np.testing.assert_allclose(frames[4::4], walk.stances[2:])


def test_the_same_seed_walks_the_same_way() -> None:
    one, two = (random_walk(np.random.default_rng(3), 30) for _ in range(2))
    assert np.array_equal(one.stances, two.stances)


def test_walks_look_up_and_down_but_not_far() -> None:
    pitches = np.concatenate([random_walk(np.random.default_rng(i), 40).stances[:, 3] for i in range(40)])
    assert 0.05 < np.mean(pitches != 0) < 0.6
    assert np.abs(pitches).max() <= PITCH_LIMIT + 1e-9


def test_every_key_is_used() -> None:
    keys = np.concatenate([random_walk(np.random.default_rng(i), 60).keys for i in range(40)])
    for column in range(4):
        assert set(np.unique(keys[:, column])) == {-1, 0, 1}


def test_holding_nothing_stays() -> None:
    walk = integrate(Stance(0.1, 0.2, 0.3), np.zeros((5, 4)))
    assert np.array_equal(walk.stances, np.tile(walk.stances[:1], (6, 1)))
