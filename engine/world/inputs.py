"""What the forwards of one block share, from its condition and its camera."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.camera.algebra import Pose
from engine.camera.motion import Lens, Path
from engine.camera.rays import ray_embedding
from engine.camera.session_rays import session_features
from engine.transformer.model import BlockInputs
from engine.world.geometry import LATENT_STRIDE
from engine.world.model import Model


def block_inputs(
    model: Model, condition: Tensor, anchor: Pose, path: Path, lens: Lens, first_frame: int
) -> BlockInputs:
    """Embed a block's condition [1, mask + C, F, h, w] and camera; `anchor` is the pose before the block."""
    config = model.transformer.config
    rays = ray_embedding(anchor, path.poses, path.intrinsics, lens.width, lens.height)
    frames = torch.arange(first_frame, first_frame + len(path.poses))
    session = None
    if config.session_rays is not None:
        session = _session_features(model, path, lens).to(model.device, model.dtype)
    return model.transformer.block(
        condition.to(model.device, model.dtype), rays.to(model.device, model.dtype), frames, session
    )


def _session_features(model: Model, path: Path, lens: Lens) -> Tensor:
    config = model.transformer.config
    assert config.session_rays is not None
    _, ph, pw = config.patch_size
    rows, columns = lens.height // LATENT_STRIDE // ph, lens.width // LATENT_STRIDE // pw
    poses = torch.tensor(path.poses, dtype=torch.float64)
    intrinsics = torch.tensor(path.intrinsics, dtype=torch.float64)
    patch = torch.tensor([LATENT_STRIDE * pw, LATENT_STRIDE * ph], dtype=torch.float64).repeat(2)
    return session_features(poses, intrinsics / patch, (rows, columns), config.session_rays)
