"""A codec that was not trained: the principal components of a few clips."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.tiny.frames import clip, to_float
from engine.tiny.train_codec import finish, start_from_components


def components_codec() -> tuple[TinyCodec, Tensor]:
    """The codec, and the clips [3, 17, 3, H, W] that it is of."""
    torch.manual_seed(0)
    codec = TinyCodec(TinyCodecConfig())
    video = to_float(torch.stack([clip(1, i, 5).frames for i in range(3)]))
    start_from_components(codec, video)
    return codec, video


def write_components_codec(path: Path) -> None:
    """As a training would leave it."""
    finish(*components_codec(), path)
