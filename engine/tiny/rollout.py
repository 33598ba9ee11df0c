"""The model left to itself on a batch of walks: what training watches (serving has its own, general
classes)."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.camera.session_rays import SessionRays
from engine.tiny.conditioning import batched_poses, embed_cameras
from engine.tiny.objective import FRAMES, conditions, inputs
from engine.transformer.model import WorldTransformer


class ViewCache:
    """One layer's K/V of the sink block and of the last block; `keep` says whether this forward is a
    commit."""

    def __init__(self) -> None:
        self.sink: tuple[Tensor, Tensor] | None = None
        self.last: tuple[Tensor, Tensor] | None = None
        self.keep = False

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, N, hd] -> sink, last block and own."""
        past = [kv for kv in (self.sink, self.last) if kv is not None]
        seen = (torch.cat([k for k, _ in past] + [keys], 1), torch.cat([v for _, v in past] + [values], 1))
        if self.keep and self.sink is None:
            self.sink = (keys, values)
        elif self.keep:
            self.last = (keys, values)
        return seen


@torch.no_grad()
def rollout(
    model: WorldTransformer,
    stances: Tensor,
    image: Tensor,
    text: Tensor,
    constant: Tensor,
    rays: SessionRays,
    sigmas: tuple[float, ...],
    seed: int = 0,
    with_context: bool = True,
) -> Tensor:
    """Generate walks: `stances` [B, 1 + 3 n, 4], `image` [B, 3, C, h, w], `text` [B, L, text_dim].

    Returns latents [B, 3 n, C, h, w].
    """
    batch, blocks = len(stances), (stances.shape[1] - 1) // FRAMES
    generator = torch.Generator().manual_seed(seed)
    poses = batched_poses(stances.double())
    kv = model.text(text)
    caches = [ViewCache() for _ in model.blocks]
    times = [model.time(torch.tensor(1000 * sigma)) for sigma in sigmas]
    clean_time = model.time(torch.tensor(0.0))
    out = []
    for index in range(blocks):
        frames = torch.arange(FRAMES) + FRAMES * index
        camera = embed_cameras(model, poses[:, frames], poses[:, frames + 1], rays)
        first = torch.full((batch,), index == 0)
        block = inputs(
            model, camera, conditions(image, constant, first, FRAMES), frames.expand(batch, FRAMES)
        )
        shape = (batch, image.shape[2], FRAMES, *image.shape[3:])
        x0 = torch.zeros(shape)
        for sigma, time in zip(sigmas, times, strict=True):
            noisy = (1 - sigma) * x0 + sigma * torch.randn(shape, generator=generator)
            x0 = model(noisy, time, block, kv, caches).float()
        if with_context:
            for cache in caches:
                cache.keep = True
            model(x0, clean_time, block, kv, caches)
            for cache in caches:
                cache.keep = False
        out.append(x0.transpose(1, 2))
    return torch.cat(out, dim=1)
