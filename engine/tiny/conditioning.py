"""What the transformer is told about a training batch: cameras, places, images, positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.camera.session_rays import SessionRays, session_features
from engine.tiny.render import FOCAL, HEIGHT, WIDTH
from engine.tiny.walks import MOVE_STEP
from engine.transformer.model import WorldTransformer
from engine.transformer.patches import patchify

PATCH_PIXELS = 16
GRID = (HEIGHT // PATCH_PIXELS, WIDTH // PATCH_PIXELS)  # patches per latent frame
TOKENS = GRID[0] * GRID[1]


def batched_poses(stances: Tensor) -> Tensor:
    """Stances [..., 4] (x, z, azimuth, pitch) -> camera-to-world [..., 4, 4]."""
    x, z, azimuth, pitch = stances.unbind(-1)
    sin_a, cos_a, sin_p, cos_p = azimuth.sin(), azimuth.cos(), pitch.sin(), pitch.cos()
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    rows = [
        torch.stack([cos_a, sin_a * sin_p, sin_a * cos_p, x], -1),
        torch.stack([zero, cos_p, -sin_p, zero], -1),
        torch.stack([-sin_a, cos_a * sin_p, cos_a * cos_p, z], -1),
        torch.stack([zero, zero, zero, one], -1),
    ]
    return torch.stack(rows, -2)


def embed_cameras(model: WorldTransformer, before: Tensor, after: Tensor, rays: SessionRays) -> Tensor:
    """Camera embedding [B, F * TOKENS, D] of the poses [B, F, 4, 4] before and after each latent frame.

    The same as `model.embed_camera` of the ray embedding and the session features, but the ray embedding
    is linear in a delta's rotation and translation, so twelve basis images are embedded instead of every
    frame.
    """
    batch, frames = after.shape[:2]
    delta = torch.linalg.inv(before.double()) @ after.double()
    scaled = torch.cat(
        [delta[..., :3, 3] / MOVE_STEP, delta[..., :3, :3].flatten(-2)], -1
    ).float()  # [B, F, 12]
    basis = (
        model.patch_embedding_wancamctrl(ray_basis(model.config.patch_size))
        - model.patch_embedding_wancamctrl.bias
    )
    framewise = torch.einsum("bfc,ctd->bftd", scaled, basis.float()) + model.patch_embedding_wancamctrl.bias
    intrinsics = torch.tensor([FOCAL / 16, FOCAL / 16, GRID[1] / 2, GRID[0] / 2]).expand(batch * frames, 4)
    features = session_features(after.flatten(0, 1), intrinsics, GRID, rays)[0]  # [C, B * F, rows, columns]
    session = features.flatten(1).T.reshape(batch, frames * TOKENS, -1)
    camera = framewise.flatten(1, 2) + model.patch_embedding_session(session)
    residual: Tensor = model.c2ws_hidden_states_layer2(F.silu(model.c2ws_hidden_states_layer1(camera)))
    out: Tensor = camera + residual
    return out


def ray_basis(patch: tuple[int, int, int]) -> Tensor:
    """Patched ray images of the twelve unit coefficients (translation xyz, rotation row by row): [12,
    TOKENS, 1536]."""
    u = (torch.arange(WIDTH) + 0.5 - WIDTH / 2) / FOCAL
    v = (torch.arange(HEIGHT) + 0.5 - HEIGHT / 2) / FOCAL
    direction = F.normalize(
        torch.stack([u.expand(HEIGHT, -1), v[:, None].expand(-1, WIDTH), torch.ones(HEIGHT, WIDTH)]), dim=0
    )
    images = torch.zeros(12, 6, HEIGHT, WIDTH)
    for axis in range(3):
        images[axis, axis] = 1
        for column in range(3):
            images[3 + 3 * axis + column, 3 + axis] = direction[column]
    return patchify(F.pixel_unshuffle(images, 8)[:, :, None], patch)
