"""What a decoder learns from: pictures of walks with their true latents and those that the world model makes.

A shard is made by its number, from the codec's encoder and the moving average of a world run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.camera.session_rays import SessionRays
from engine.text.words import WordTable
from engine.tiny.frames import TRAINING, clip, to_float
from engine.tiny.latents import load_codec
from engine.tiny.numbers import fast_dtype
from engine.tiny.places import PLACES
from engine.tiny.render import Kernel
from engine.tiny.rollout import rollout
from engine.tiny.saving import save_whole
from engine.tiny.train_world import TEXT_DIM, config_of
from engine.tiny.watch import SIGMAS
from engine.tiny.words import WORDS, random_prompt
from engine.transformer.model import WorldTransformer

DREAM = 30  # latent frames: ten blocks
SHARD = 12  # walks
BLANK = 8  # blank pictures after the first, in the first block's image latent


@dataclass(slots=True)
class Dreams:
    """N walks: `frames` uint8 [N, 1 + 4 (T - 1), H, W, 3]; normalised latents fp16 [N, T, C, h, w], `true`
    of the encoder and `own` of the world model left to itself from the first picture."""

    frames: Tensor
    true: Tensor
    own: Tensor

    @staticmethod
    def join(parts: list[Dreams]) -> Dreams:
        """All walks of some shards."""
        names = ("frames", "true", "own")
        return Dreams(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def load_average(state: Path) -> WorldTransformer:
    """The averaged model of a `train_world` state."""
    model = WorldTransformer(config_of(SessionRays()))
    model.load_state_dict(torch.load(state, weights_only=True)["average"])
    return model.eval()


@torch.no_grad()
def make_dreams(
    index: int,
    codec_path: Path,
    state: Path,
    kernel: Kernel | None,
    count: int = SHARD,
    length: int = DREAM,
) -> Dreams:
    """Render, encode and dream the walks of one shard; half of the prompts are the places' own."""
    codec, mean, std = load_codec(codec_path)
    rng = np.random.default_rng([TRAINING, 7, index])
    numbers = range(index * count, (index + 1) * count)
    clips = [clip(TRAINING, 3_000_000 + number, length, kernel) for number in numbers]
    prompts = [
        PLACES[one.place].prompt if rng.random() < 0.5 else random_prompt(rng, one.place) for one in clips
    ]
    table = WordTable.create(WORDS, TEXT_DIM)
    frames = torch.stack([one.frames for one in clips])
    stances = torch.stack([torch.from_numpy(one.walk.stances) for one in clips])
    video = to_float(frames)
    blank = torch.cat([video[:, :1], torch.zeros_like(video[:, :1]).expand(-1, 5 * BLANK, -1, -1, -1)], dim=1)
    with torch.autocast("cpu", torch.bfloat16, enabled=fast_dtype() is torch.bfloat16):
        true = (codec.encode_video(video).float() - mean) / std
        image = (codec.encode_video(blank).float() - mean) / std
        own = rollout(
            load_average(state),
            stances,
            image[:, : 1 + BLANK // 4],
            torch.cat([table.encode(prompt) for prompt in prompts]),
            image[0, -1],
            SessionRays(),
            SIGMAS,
            seed=index,
        )
    return Dreams(frames, true.half(), own.half())


def save_dreams(dreams: Dreams, path: Path) -> None:
    """Write what `load_dreams` reads."""
    save_whole({"frames": dreams.frames, "true": dreams.true, "own": dreams.own}, path)


def load_dreams(path: Path) -> Dreams:
    """Read what `save_dreams` wrote."""
    return Dreams(**torch.load(path, weights_only=True))
