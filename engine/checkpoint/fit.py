"""Whether a checkpoint fits into memory, from its configuration and its files' headers alone."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from engine.checkpoint.index import PARTS, CheckpointRefused, read_index
from engine.checkpoint.kinds import CODECS, TEXT_ENCODERS, kind_of
from engine.checkpoint.tensors import shapes_of
from engine.checkpoint.weights import read_config
from engine.world.geometry import geometry_of
from engine.world.spec import SIZE_MULTIPLE
from kvcache.capacity import required_bytes
from kvcache.geometry import Geometry


def weight_bytes(folder: Path, dtype: torch.dtype) -> int:
    """What the weights of all parts take in `dtype`. Raises `CheckpointRefused`."""
    total = 0
    for part in PARTS:
        shapes = shapes_of(sorted((folder / part).glob("*.safetensors")))
        total += sum(math.prod(shape) for shape in shapes.values())
    return total * dtype.itemsize


def planned_geometry(folder: Path, dtype: torch.dtype, width: int, height: int) -> Geometry:
    """What `Model.geometry` will say of the loaded checkpoint. Raises `CheckpointRefused`."""
    index, config = read_index(folder), read_config(folder / "transformer")
    with kind_of(folder, "vae", index, CODECS) as codecs:
        histories = codecs.plan(folder / "vae", dtype).history_bytes(width, height)
    with kind_of(folder, "text_encoder", index, TEXT_ENCODERS) as encoders:
        tokens = encoders.length(folder / "text_encoder")
    return geometry_of(config, dtype, width, height, tokens, histories)


def require_fit(folder: Path, dtype: torch.dtype, available: int) -> None:
    """Raise `CheckpointRefused` where weights and one session exceed `available` bytes.

    The message says what each takes, and what would fit: a smaller picture, or more memory.
    """
    card = read_index(folder).card
    weights = weight_bytes(folder, dtype)
    geometry = planned_geometry(folder, dtype, card.width, card.height)
    session, text = required_bytes(geometry, 1), geometry.cross_bytes
    if weights + session <= available:
        return
    share = (available - weights - text) / (session - text)  # the text weighs the same at any size
    pixels = int(card.width * card.height * share)
    if pixels >= SIZE_MULTIPLE**2:
        fits = f"pictures of up to about {pixels} pixels would fit"
    else:
        fits = f"{weights + session} bytes would hold one session"
    raise CheckpointRefused(
        f"{folder}: weights take {weights} bytes in {str(dtype).removeprefix('torch.')}, a session of "
        f"{card.width}x{card.height} takes {session} more, {available} are free; {fits}"
    )
