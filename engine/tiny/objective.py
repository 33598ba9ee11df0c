"""What the world model is trained on: one-block and whole-walk batches, and their loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attention.masks import build_mask
from engine.camera.session_rays import SessionRays
from engine.tiny.conditioning import GRID, TOKENS, batched_poses, embed_cameras
from engine.tiny.latents import WALK, Walks
from engine.transformer.block import Block
from engine.transformer.model import BlockInputs, TextKV, WorldTransformer
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


def text_kv(model: WorldTransformer, table: Tensor) -> TextKV:
    """Cross K/V [B, L, N, hd] of text embeddings [B, L, text_dim]."""
    return model.text(table)


def inputs(model: WorldTransformer, camera: Tensor, condition: Tensor, positions: Tensor) -> BlockInputs:
    """Block inputs of `camera` [B, S, D], `condition` [B, 20, F, h, w], `positions` [B, F]."""
    blocks = [block for block in model.blocks if isinstance(block, Block)]
    return BlockInputs(
        condition=model.embed_condition(condition),
        camera=tuple(block.inject(camera) for block in blocks),
        rope=rotary_table(positions, *GRID, model.config.attention_head_dim).unsqueeze(-2),
        grid=(positions.shape[1], *GRID),
    )


def conditions(image: Tensor, constant: Tensor, first: Tensor, frames: int) -> Tensor:
    """Mask and image latent [B, 4 + C, frames, h, w]: `image` [B, 3, C, h, w] where `first` [B], else `constant`."""
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
    return weighted_loss(model(noisy, time, block, text_kv(model, text)), clean, sigma)


def view_mask(seen: Tensor, window: int) -> Tensor:
    """Which frames see which, [B, 2 WALK, 2 WALK] over [context | noisy]; `seen` [B, BLOCKS] says whether a block
    sees its context at all. Sink is the first block; `window` counts recent blocks."""
    block = torch.arange(BLOCKS).repeat_interleave(FRAMES)
    row, column = block[:, None], block[None]
    context = (column < row) & ((column == 0) | (column >= row - window))
    own = row == column
    keeps = seen.repeat_interleave(FRAMES, dim=1)[:, :, None] & context  # [B, WALK, WALK]
    nothing = torch.zeros_like(keeps)
    top = torch.cat([(context | own).expand_as(keeps), nothing], dim=2)
    return torch.cat([top, torch.cat([keeps, own.expand_as(keeps)], dim=2)], dim=1)


def whole_walk_loss(
    model: WorldTransformer,
    walks: Walks,
    pick: Tensor,
    text: Tensor,
    constant: Tensor,
    rays: SessionRays,
    noise: Noise,
    generator: torch.Generator,
    context: Tensor | None = None,
) -> Tensor:
    """All blocks of some walks, each with the committed blocks before it: true, noisy, another walk's, or given.

    `context` [B, C, WALK, h, w] replaces the true latents (a rollout of the model's own).
    """
    batch = len(pick)
    clean = walks.latents[pick].float().transpose(1, 2)
    poses = batched_poses(walks.stances[pick])
    camera = embed_cameras(model, poses[:, :-1], poses[:, 1:], rays).repeat(1, 2, 1)
    condition = conditions(walks.image[pick].float(), constant, torch.ones(batch, dtype=torch.bool), WALK)
    positions = torch.arange(WALK).expand(batch, WALK).double().clone()
    positions[:, FRAMES:] += draw_gaps(batch, generator)[:, None]
    told = clean if context is None else context
    wrong = torch.rand(batch, generator=generator) < 0.2
    told = torch.where(wrong[:, None, None, None, None], told.roll(1, 0), told)
    spoil = 0.5 * torch.rand(batch, 1, BLOCKS, 1, 1, generator=generator).repeat_interleave(FRAMES, dim=2)
    told = (1 - spoil) * told + spoil * torch.randn(told.shape, generator=generator)
    sigma = draw_sigmas(noise, (batch, BLOCKS), generator).repeat_interleave(FRAMES, dim=1)
    level = sigma[:, None, :, None, None]
    noisy = (1 - level) * clean + level * torch.randn(clean.shape, generator=generator)
    time = model.time(torch.cat([torch.zeros_like(sigma), sigma * 1000], dim=1), TOKENS)
    block = inputs(model, camera, condition.repeat(1, 1, 2, 1, 1), positions.repeat(1, 2))
    seen = torch.rand(batch, BLOCKS, generator=generator) < 0.85
    window = (model.config.sliding_window_num_frames - model.config.sink_size) // FRAMES - 1
    pair = view_mask(seen, window).repeat_interleave(TOKENS, 1).repeat_interleave(TOKENS, 2)[:, None]
    size = 2 * WALK * TOKENS
    mask = build_mask(batch=batch, heads=1, query_length=size, kv_length=size, pair=pair)
    out = model(torch.cat([told, noisy], dim=2), time, block, text_kv(model, text), None, mask)
    return weighted_loss(out[:, :, WALK:], clean, sigma)
