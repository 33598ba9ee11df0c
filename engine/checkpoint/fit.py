"""Whether a checkpoint fits into memory, from its configuration and its files' headers alone."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from engine.checkpoint.index import PARTS, CheckpointRefused, read_index
from engine.checkpoint.tensors import shapes_of
from engine.checkpoint.weights import read_config
from engine.world.geometry import geometry_of
from kvcache.capacity import required_bytes


def weight_bytes(folder: Path, dtype: torch.dtype) -> int:
    """What the weights of all parts take in `dtype`. Raises `CheckpointRefused`."""
    total = 0
    for part in PARTS:
        shapes = shapes_of(sorted((folder / part).glob("*.safetensors")))
        total += sum(math.prod(shape) for shape in shapes.values())
    return total * dtype.itemsize


def require_fit(folder: Path, dtype: torch.dtype, available: int) -> None:
    """Raise `CheckpointRefused` where weights and one session's K/V exceed `available` bytes.

    The message says what each takes, and what would fit: a smaller picture, or more memory.
    """
    card, config = read_index(folder).card, read_config(folder / "transformer")
    weights = weight_bytes(folder, dtype)
    session = required_bytes(geometry_of(config, dtype, card.width, card.height), 1)
    if weights + session <= available:
        return
    share = (available - weights) / session
    if share > 0:
        fits = f"pictures of up to about {int(card.width * card.height * share)} pixels would fit"
    else:
        fits = f"{weights + session} bytes would hold one session"
    raise CheckpointRefused(
        f"{folder}: weights take {weights} bytes in {str(dtype).removeprefix('torch.')}, a session of "
        f"{card.width}x{card.height} takes {session} more, {available} are free; {fits}"
    )
