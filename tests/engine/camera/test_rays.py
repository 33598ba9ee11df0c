from __future__ import annotations

import pytest
import torch

from engine.camera.algebra import IDENTITY, compose
from engine.camera.integrate import Camera, press
from engine.camera.intrinsics import at_size, default_at_size
from engine.camera.rays import ray_embedding

WIDTH, HEIGHT = 32, 16
LENS = (20.0, 20.0, 16.0, 8.0)


def walk(*keys: str) -> tuple[tuple[tuple[float, float, float, float], ...], ...]:
    camera, poses = Camera(), []
    for one in keys:
        camera = press(camera, set(one))
        poses.append(camera.pose)
    return tuple(poses)


def test_intrinsics_scale_from_the_reference_frame() -> None:
    assert at_size((500, 500, 416, 240), 416, 120) == (250, 125, 208, 60)


def test_lingbots_default_is_500_pixels_at_any_size() -> None:
    assert default_at_size(None, 160, 96) == (500, 500, 80, 48)
    assert default_at_size((500, 500, 416, 240), 416, 240) == (250, 250, 208, 120)


def test_shapes_are_those_of_the_latent_grid() -> None:
    rays = ray_embedding(IDENTITY, walk("w", "w", "l"), [LENS] * 3, WIDTH, HEIGHT)
    assert rays.shape == (1, 384, 3, HEIGHT // 8, WIDTH // 8)
    assert rays.dtype is torch.float32


def test_a_full_step_is_an_origin_of_length_one_and_rest_is_zero() -> None:
    rays = ray_embedding(IDENTITY, walk("w", "", "wd"), [LENS] * 3, WIDTH, HEIGHT)
    origins = rays[0, :192].unflatten(0, (3, 64))[:, 0, :, 0, 0].norm(dim=0)
    assert origins.tolist() == pytest.approx([1, 0, 2**0.5], abs=1e-4)


def test_max_scales_the_largest_step_to_one() -> None:
    rays = ray_embedding(IDENTITY, walk("w", "", "wd"), [LENS] * 3, WIDTH, HEIGHT, "max")
    origins = rays[0, :192].unflatten(0, (3, 64))[:, 0, :, 0, 0].norm(dim=0)
    assert origins.tolist() == pytest.approx([0.5**0.5, 0, 1], abs=1e-4)


def test_max_leaves_a_resting_camera_alone() -> None:
    rays = ray_embedding(IDENTITY, walk("", "", ""), [LENS] * 3, WIDTH, HEIGHT, "max")
    assert rays[:, :192].abs().max() == 0


def test_channels_are_ordered_channel_then_row_then_column() -> None:
    rays = ray_embedding(IDENTITY, walk("", "", ""), [LENS] * 3, WIDTH, HEIGHT)
    directions = rays[0, 192:, 0].unflatten(0, (3, 8, 8))  # [xyz, dy, dx, h, w]
    down, along = 3, 5
    x, y = (8 * 2 + along + 0.5 - LENS[2]) / LENS[0], (8 * 1 + down + 0.5 - LENS[3]) / LENS[1]
    expected = torch.tensor([x, y, 1.0]) / (x * x + y * y + 1) ** 0.5
    assert torch.allclose(directions[:, down, along, 1, 2], expected, atol=1e-6)


def test_rays_do_not_see_where_the_session_stands() -> None:
    origin = compose(walk("l", "l", "lw")[-1], walk("wd", "wd", "w")[-1])
    poses = walk("w", "wl", "wj")
    moved = tuple(compose(origin, pose) for pose in poses)
    here = ray_embedding(IDENTITY, poses, [LENS] * 3, WIDTH, HEIGHT)
    there = ray_embedding(origin, moved, [LENS] * 3, WIDTH, HEIGHT)
    assert torch.allclose(here, there, atol=1e-5)
