"""Visits of the served world: a session from a scene along given keys, through the classes that serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.tiny.export import origin_of
from engine.tiny.places import PLACES, Place
from engine.tiny.render import render
from engine.tiny.walks import Walk, integrate, pixel_stances, poses_of, random_walk, stance_of
from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import open_world

FRAMES = 3  # latent frames per block
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Start:
    """A scene: place and spawn by index."""

    place: int
    spawn: int

    @property
    def home(self) -> Place:
        """The place."""
        return PLACES[self.place]


STARTS = tuple(
    Start(place, spawn) for place in range(len(PLACES)) for spawn in range(len(PLACES[place].spawns))
)


def letters(keys: Sequence[float]) -> tuple[str, ...]:
    """A row of a walk's keys as the camera's letters."""
    pairs = zip((("w", "s"), ("d", "a"), ("l", "j"), ("i", "k")), keys, strict=True)
    return tuple(plus if value > 0 else minus for (plus, minus), value in pairs if value)


def walk_from(start: Start, keys: NDArray[np.int64]) -> Walk:
    """Keys [N, 4] followed from a scene."""
    return integrate(stance_of(start.home.spawns[start.spawn]), keys)


def random_keys(seed: Sequence[int], blocks: int) -> NDArray[np.int64]:
    """Held-out keys [3 * blocks, 4]."""
    level = random_walk(np.random.default_rng(list(seed)), FRAMES * blocks, stance_of(PLACES[0].spawns[0]))
    return level.keys


def truth_of(start: Start, walk: Walk) -> Pixels:
    """What the renderer shows along a walk: [1 + 4 (N - 1), H, W, 3]."""
    return picture(start.home, pixel_stances(walk))


def picture(place: Place, stances: NDArray[np.float64]) -> Pixels:
    """The renderer's frames at stances [F, 4]."""
    return render(place, poses_of(stances)).numpy()


def visit(model: Model, start: Start, keys: NDArray[np.int64], seed: int = 0) -> Pixels:
    """Let the world run along `keys` [3 n, 4] from a scene: frames [9 + 12 (n - 1), H, W, 3]."""
    spawn = start.home.spawns[start.spawn]
    origin = tuple(tuple(row) for row in origin_of(spawn).tolist())
    first = picture(start.home, walk_from(start, keys[:0]).stances)[0]
    spec = WorldSpec("visit", first, start.home.prompt, seed, origin)
    world = open_world(model, spec, make_caches())
    chunks = []
    for block in keys.reshape(-1, FRAMES, 4):
        chunk = world.begin_chunk(start.home.prompt, [{"keys": letters(row)} for row in block.tolist()])
        for _ in chunk.forwards():
            pass
        chunks.append(chunk.decode())
        chunk.write()
        world.commit()
    world.close()
    return np.concatenate(chunks)


def by_chunk(frames: Pixels) -> list[Pixels]:
    """Cut frames into 9, 12, 12, ..."""
    edges = [0, *range(9, len(frames) + 1, 12)]
    return [frames[a:b] for a, b in pairwise(edges)]


def as_float(frames: Pixels) -> Tensor:
    """0..1."""
    return torch.tensor(frames).float() / 255


def decibels(a: Pixels, b: Pixels) -> float:
    """PSNR."""
    return float(-10 * (as_float(a) - as_float(b)).pow(2).mean().clamp(min=1e-10).log10())


def sharpness(frames: Pixels) -> float:
    """Mean energy of the Laplacian; compared as a ratio to the truth's."""
    x = as_float(frames)
    around = x[:, :-2, 1:-1] + x[:, 2:, 1:-1] + x[:, 1:-1, :-2] + x[:, 1:-1, 2:]
    return float((4 * x[:, 1:-1, 1:-1] - around).square().mean())
