import math

import torch

from engine.camera.session_rays import SessionRays, session_features
from engine.tiny.conditioning import GRID
from engine.tiny.walks import Stance, integrate, poses_of

RAYS = SessionRays()
INTRINSICS = torch.tensor([[3.6, 3.6, 3.0, 2.0]])


def features(x: float, z: float, azimuth: float) -> torch.Tensor:
    poses = poses_of(integrate(Stance(x, z, azimuth), torch.zeros(0, 4).numpy()).stances)
    return session_features(poses, INTRINSICS, GRID, RAYS)


def test_features_have_one_vector_per_patch_within_one() -> None:
    out = features(0.3, -0.7, 1.0)
    assert out.shape == (1, RAYS.channels, 1, *GRID)
    assert out.dtype == torch.float32
    assert float(out.abs().max()) <= 1.6  # the elevation is an angle


def test_a_period_further_on_everything_looks_the_same() -> None:
    here, there = features(0.3, -0.7, 1.0), features(0.3 + RAYS.period, -0.7 - 2 * RAYS.period, 1.0)
    torch.testing.assert_close(here, there, atol=1e-5, rtol=0)


def test_a_full_turn_changes_nothing_and_a_part_of_one_does() -> None:
    here = features(0.3, -0.7, 1.0)
    torch.testing.assert_close(here, features(0.3, -0.7, 1.0 + 2 * math.pi), atol=1e-5, rtol=0)
    assert float((here - features(0.3, -0.7, 1.1)).abs().max()) > 0.05


def test_points_along_the_rays_do_not_depend_on_who_looks() -> None:
    """One patch column straight ahead: 0.25 units on from here is the camera's own point over there."""
    middle = torch.tensor([[3.6, 3.6, 2.5, 2.0]])
    waves = len(RAYS.waves)
    at = RAYS.distances.index(0.25)

    def sines(z: float) -> torch.Tensor:
        poses = poses_of(integrate(Stance(0.1, z, 0.0), torch.zeros(0, 4).numpy()).stances)
        out = session_features(poses, middle, GRID, RAYS)[0, :, 0, 0, 2]
        return out[: waves * len(RAYS.distances)].view(len(RAYS.distances), waves)

    torch.testing.assert_close(sines(0.0)[at], sines(0.25)[0], atol=1e-5, rtol=0)


def test_the_parameters_survive_json() -> None:
    assert SessionRays.from_json(RAYS.to_json()) == RAYS
