"""Pictures and latents of random walks, made once by seed and kept in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.tiny.places import PLACES
from engine.tiny.render import Kernel, render
from engine.tiny.walks import Walk, pixel_stances, poses_of, random_walk

TRAINING, HELD_OUT = 1, 2  # streams of seeds


@dataclass(frozen=True, slots=True)
class Clip:
    """A walk through one place (its index) and the pictures along it: uint8 [1 + 4 (N - 1), H, W, 3]."""

    place: int
    walk: Walk
    frames: Tensor


def clip(stream: int, index: int, length: int, kernel: Kernel | None = None) -> Clip:
    """The clip number `index` of a stream; `length` in latent frames. The places take turns."""
    rng = np.random.default_rng([stream, index])
    place = index % len(PLACES)
    walk = random_walk(rng, length)
    return Clip(place, walk, render(PLACES[place], poses_of(pixel_stances(walk)), kernel))


def to_float(frames: Tensor) -> Tensor:
    """uint8 [..., H, W, 3] -> float [..., 3, H, W] in -1..1."""
    return frames.movedim(-1, -3).to(torch.float32) / 127.5 - 1


def psnr(a: Tensor, b: Tensor) -> float:
    """Decibels between two sets of pictures in -1..1."""
    return float(-10 * ((a.clamp(-1, 1) - b.clamp(-1, 1)).pow(2).mean() / 4).log10())
