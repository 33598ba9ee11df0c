"""The training set of the world model: walks as normalised latents, in shards made by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.codec.tiny import TIME, TinyCodec, TinyCodecConfig
from engine.tiny.frames import TRAINING, clip, to_float
from engine.tiny.numbers import fast_dtype
from engine.tiny.render import Kernel
from engine.tiny.saving import save_whole

WALK = 15  # latent frames: five blocks
SHARD = 60  # walks
BATCH = 12  # walks encoded at once


@dataclass(slots=True)
class Walks:
    """N walks: `latents` fp16 [N, 15, C, h, w] normalised; `image` [N, 3, C, h, w] is the first block's image
    latent (of the first picture, then zeros), `stances` float32 [N, 16, 4], `place` [N]."""

    latents: Tensor
    image: Tensor
    stances: Tensor
    place: Tensor

    @staticmethod
    def join(parts: list[Walks]) -> Walks:
        """All walks of some shards."""
        names = ("latents", "image", "stances", "place")
        return Walks(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def load_codec(path: Path) -> tuple[TinyCodec, Tensor, Tensor]:
    """The trained codec with the mean and scale [C, 1, 1] of its latents."""
    saved = torch.load(path, weights_only=True)
    config = TinyCodecConfig(edges=saved.get("edges", 0))
    codec = TinyCodec(config).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    codec.load_state_dict(saved["codec"])
    mean, std = (torch.tensor(saved[name])[:, None, None] for name in ("mean", "std"))
    return codec.eval(), mean, std


def save_codec(codec: TinyCodec, mean: Sequence[float], std: Sequence[float], path: Path) -> None:
    """Write what `load_codec` reads."""
    parts = {"codec": codec.state_dict(), "mean": tuple(mean), "std": tuple(std)}
    save_whole({**parts, "edges": codec.config.edges}, path)


@torch.no_grad()
def make_shard(
    index: int, codec_path: Path, kernel: Kernel | None, count: int = SHARD, stream: int = TRAINING
) -> Walks:
    """Render and encode the walks of one shard."""
    codec, mean, std = load_codec(codec_path)
    clips = [clip(stream, 1_000_000 + n, WALK, kernel) for n in range(index * count, (index + 1) * count)]
    latents, images = [], []
    for start in range(0, count, BATCH):
        video = to_float(torch.stack([one.frames for one in clips[start : start + BATCH]]))
        blank = torch.cat([video[:, :1], torch.zeros_like(video[:, 1 : 1 + 2 * TIME])], dim=1)
        with torch.autocast("cpu", torch.bfloat16, enabled=fast_dtype() is torch.bfloat16):
            encoded, image = codec.encode_video(video), codec.encode_video(blank)
        latents.append(((encoded.float() - mean) / std).half())
        images.append(((image.float() - mean) / std).half())
    stances = torch.stack([torch.from_numpy(one.walk.stances.astype(np.float32)) for one in clips])
    return Walks(torch.cat(latents), torch.cat(images), stances, torch.tensor([one.place for one in clips]))


def save_shard(walks: Walks, path: Path) -> None:
    """Write what `load_shard` reads."""
    save_whole(
        {"latents": walks.latents, "image": walks.image, "stances": walks.stances, "place": walks.place}, path
    )


def load_shard(path: Path) -> Walks:
    """Read what `save_shard` wrote."""
    return Walks(**torch.load(path, weights_only=True))
