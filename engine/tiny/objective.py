"""What the world model is trained on: one-block and whole-walk batches, and their loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attention.masks import Mask, build_mask
from engine.camera.session_rays import SessionRays
from engine.tiny.conditioning import GRID, TOKENS, batched_poses, embed_cameras
from engine.tiny.latents import WALK, Walks
from engine.transformer.model import BlockInputs, WorldTransformer
from engine.transformer.rope import rotary_table

FRAMES = 3  # latent frames per block
BLOCKS = WALK // FRAMES
MASK_CHANNELS = 4


@dataclass(frozen=True, slots=True)
class Noise:
    """Which noise levels are trained: those that are sampled, and a share drawn evenly."""

    sigmas: tuple[float, ...] = (1.0, 0.6)
    even_share: float = 0.25


def draw_sigmas(noise: Noise, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Noise levels of `shape`."""
    grid = torch.tensor(noise.sigmas)[torch.randint(len(noise.sigmas), shape, generator=generator)]
    even = 0.05 + 0.95 * torch.rand(shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < noise.even_share, even, grid)


def draw_gaps(count: int, generator: torch.Generator) -> Tensor:
    """How far after the first block the rest of a walk lies, in latent frames: half none, half up to 4096."""
    gap = torch.exp(torch.rand(count, generator=generator) * math.log(4096 / FRAMES)) - 1
    return (torch.rand(count, generator=generator) < 0.5) * FRAMES * gap.round()


def inputs(model: WorldTransformer, camera: Tensor, condition: Tensor, positions: Tensor) -> BlockInputs:
    """Block inputs of `camera` [B, S, D], `condition` [B, 20, F, h, w], `positions` [B, F]."""
    blocks = model.layers()
    return BlockInputs(
        condition=model.embed_condition(condition),
        camera=tuple(block.inject(camera) for block in blocks),
        rope=rotary_table(positions, *GRID, model.config.attention_head_dim).unsqueeze(-2),
        grid=(positions.shape[1], *GRID),
    )


def conditions(image: Tensor, constant: Tensor, first: Tensor, frames: int) -> Tensor:
    """Mask and image latent [B, 4 + C, frames, h, w]: `image` [B, 3, C, h, w] where `first` [B], else
    `constant`."""
    batch, _, channels, height, width = image.shape
    latent = constant.expand(batch, frames, channels, height, width).clone()
    latent[:, :FRAMES] = torch.where(first[:, None, None, None, None], image, latent[:, :FRAMES])
    mask = torch.zeros(batch, frames, MASK_CHANNELS, height, width)
    mask[:, 0] = first[:, None, None, None].float()
    return torch.cat([mask, latent], dim=2).transpose(1, 2)


def weighted_loss(predicted: Tensor, clean: Tensor, sigma: Tensor) -> Tensor:
    """Mean squared error on x0, heavier where less noise is left: [B, C, F, h, w], sigma [B, F]."""
    error = (predicted.float() - clean).pow(2).mean(dim=(1, 3, 4))  # [B, F]
    return (error / (sigma**2 + 0.25)).mean()


def one_block_loss(
    model: WorldTransformer,
    walks: Walks,
    pick: Tensor,
    text: Tensor,
    constant: Tensor,
    rays: SessionRays,
    noise: Noise,
    generator: torch.Generator,
) -> Tensor:
    """Single blocks without context: a fifth of them a session's first, the rest from anywhere in a walk."""
    batch = len(pick)
    first = torch.rand(batch, generator=generator) < 0.2
    start = torch.where(first, 0, torch.randint(2, WALK - FRAMES + 1, (batch,), generator=generator))
    index = start[:, None] + torch.arange(FRAMES)
    clean = walks.latents[pick[:, None], index].float().transpose(1, 2)  # [B, C, F, h, w]
    poses = batched_poses(walks.stances[pick])
    rows = torch.arange(batch)[:, None]
    camera = embed_cameras(model, poses[rows, index], poses[rows, index + 1], rays)
    condition = conditions(walks.image[pick].float(), constant, first, FRAMES)
    positions = index + torch.where(first, 0.0, draw_gaps(batch, generator))[:, None]
    sigma = draw_sigmas(noise, (batch, 1), generator)
    level = sigma[:, :, None, None, None]
    noisy = (1 - level) * clean + level * torch.randn(clean.shape, generator=generator)
    time = model.time(sigma * 1000)
    block = inputs(model, camera, condition, positions)
    return weighted_loss(model(noisy, time, block, model.text(text)), clean, sigma)


class TeacherCache:
    """K/V of whole walks, as a batch of blocks: the context blocks [B * BLOCKS], then as many noisy ones.

    Every block sees the walk's first block (the sink), the context block before it, and itself: the view of a
    transformer with a sink of one block and a window of one.
    """

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """[2 B * BLOCKS, S, N, hd] -> [2 B * BLOCKS, 3 S, N, hd]: sink, block before, own."""
        return self._view(keys), self._view(values)

    @staticmethod
    def _view(own: Tensor) -> Tensor:
        context = torch.unflatten(own[: len(own) // 2], 0, (-1, BLOCKS))  # [B, BLOCKS, S, N, hd]
        sink = context[:, :1].expand_as(context)
        before = context.roll(1, dims=1)
        past = torch.cat([sink, before], dim=2).flatten(0, 1)
        return torch.cat([past.repeat(2, 1, 1, 1), own], dim=1)


def view_mask(seen: Tensor) -> Mask:
    """Which parts of `TeacherCache`'s view are visible; `seen` [B, BLOCKS] says whether a noisy block has
    context.

    The first block has no past, and the second's sink and block before are one and the same.
    """
    index = torch.arange(BLOCKS)
    sink, before = (index > 0).expand_as(seen), (index > 1).expand_as(seen)
    own = torch.ones_like(seen)
    context = torch.stack([sink, before, own], dim=-1)
    noisy = torch.stack([sink & seen, before & seen, own], dim=-1)
    valid = torch.cat([context, noisy]).flatten(0, 1).repeat_interleave(FRAMES * TOKENS, dim=1)
    return build_mask(
        batch=len(valid), heads=1, query_length=FRAMES * TOKENS, kv_length=valid.shape[1], kv_valid=valid
    )


def whole_walk_loss(
    model: WorldTransformer,
    walks: Walks,
    pick: Tensor,
    text: Tensor,
    constant: Tensor,
    rays: SessionRays,
    noise: Noise,
    generator: torch.Generator,
    own_context: bool,
) -> Tensor:
    """All blocks of some walks, each with the committed blocks before it: true or the model's own, with
    some noise, or another walk's."""
    batch = len(pick)
    clean = to_blocks(walks.latents[pick].float())
    poses = batched_poses(walks.stances[pick])
    before, after = poses[:, :-1].reshape(-1, FRAMES, 4, 4), poses[:, 1:].reshape(-1, FRAMES, 4, 4)
    camera = embed_cameras(model, before, after, rays).repeat(2, 1, 1)
    first = (torch.arange(BLOCKS) == 0).repeat(batch)
    image = walks.image[pick].float().repeat_interleave(BLOCKS, dim=0)
    condition = conditions(image, constant, first, FRAMES).repeat(2, 1, 1, 1, 1)
    positions = torch.arange(WALK).expand(batch, WALK) + draw_gaps(batch, generator)[:, None] * (
        torch.arange(WALK) >= FRAMES
    )
    kv = model.text(text.repeat_interleave(BLOCKS, dim=0).repeat(2, 1, 1))
    block = inputs(model, camera, condition, positions.reshape(-1, FRAMES).repeat(2, 1))
    told = clean
    if own_context:
        with torch.no_grad():
            fresh = torch.randn(clean.shape, generator=generator).repeat(2, 1, 1, 1, 1)
            told = model(fresh, model.time(torch.tensor(1000.0)), block, kv)[: len(clean)].float()
    told = spoiled_context(told, generator)
    sigma = draw_sigmas(noise, (batch * BLOCKS, 1), generator)
    level = sigma[:, :, None, None, None]
    noisy = (1 - level) * clean + level * torch.randn(clean.shape, generator=generator)
    time = model.time(torch.cat([torch.zeros_like(sigma), sigma * 1000]))
    mask = view_mask(torch.rand(batch, BLOCKS, generator=generator) < 0.85)
    caches = [TeacherCache()] * model.config.num_layers
    out = model(torch.cat([told, noisy]), time, block, kv, caches, mask)
    return weighted_loss(out[len(clean) :], clean, sigma)


def to_blocks(latents: Tensor) -> Tensor:
    """[B, WALK, C, h, w] -> [B * BLOCKS, C, FRAMES, h, w]."""
    return latents.reshape(-1, FRAMES, *latents.shape[2:]).transpose(1, 2)


def spoiled_context(clean: Tensor, generator: torch.Generator) -> Tensor:
    """Context for blocks [B * BLOCKS, C, FRAMES, h, w]: a fifth of the walks get another's, all get some
    noise."""
    walks = torch.unflatten(clean, 0, (-1, BLOCKS))
    wrong = torch.rand(len(walks), 1, 1, 1, 1, 1, generator=generator) < 0.2
    told = torch.where(wrong, walks.roll(1, dims=0), walks)
    noise = 0.5 * torch.rand(len(walks), BLOCKS, 1, 1, 1, 1, generator=generator)
    told = (1 - noise) * told + noise * torch.randn(told.shape, generator=generator)
    return told.flatten(0, 1)
