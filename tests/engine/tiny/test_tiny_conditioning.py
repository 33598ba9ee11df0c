import numpy as np
import pytest
import torch

from engine.camera.rays import ray_embedding
from engine.camera.session_rays import SessionRays, session_features
from engine.tiny.conditioning import GRID, batched_poses, embed_cameras
from engine.tiny.render import FOCAL, HEIGHT, WIDTH
from engine.tiny.train_world import config_of
from engine.tiny.walks import poses_of, random_walk
from engine.transformer.model import WorldTransformer

torch.set_num_threads(1)
INTRINSICS = (FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2)


@pytest.fixture(scope="module")
def model() -> WorldTransformer:
    torch.manual_seed(0)
    return WorldTransformer(config_of(SessionRays()))


def test_batched_poses_are_those_of_the_walk() -> None:
    stances = random_walk(np.random.default_rng(1), 9).stances
    torch.testing.assert_close(batched_poses(torch.from_numpy(stances)), poses_of(stances))


def test_training_embeds_cameras_as_serving_does(model: WorldTransformer) -> None:
    poses = poses_of(random_walk(np.random.default_rng(5), 3).stances)
    rows = [tuple(tuple(row) for row in pose) for pose in poses.tolist()]
    rays = ray_embedding(rows[0], rows[1:], [INTRINSICS] * 3, WIDTH, HEIGHT)
    per_patch = torch.tensor(INTRINSICS).expand(3, 4) / 16
    features = session_features(poses[1:], per_patch, GRID, SessionRays())
    with torch.no_grad():
        expected = model.embed_camera(rays, features)
        batched = embed_cameras(model, poses[None, :-1], poses[None, 1:], SessionRays())
    torch.testing.assert_close(batched, expected, atol=1e-4, rtol=1e-4)
