"""From a checkpoint folder to a model that is ready to serve."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from attention.selection import BackendPolicy
from engine.checkpoint.index import CheckpointRefused, read_index, read_json
from engine.checkpoint.kinds import CODECS, TEXT_ENCODERS, Device, kind_of
from engine.checkpoint.weights import load_transformer
from engine.codec.codec import Codec
from engine.numerics import Numerics
from engine.sampler.schedule import Schedule, ScheduleRefused
from engine.transformer.compiled import CompiledTransformer
from engine.transformer.equality import AnyTransformer, compiled_or_eager
from engine.transformer.serving import serving
from engine.world.geometry import LATENT_STRIDE
from engine.world.model import Model

HASHED_WHOLE = 2**28
"""Weight files up to this many bytes count into the revision whole, larger ones by name, size and first
megabyte.
"""


def load_model(
    folder: Path,
    dtype: torch.dtype = torch.float32,
    device: Device = "cpu",
    policy: BackendPolicy | None = None,
    numerics: Numerics | None = None,
) -> Model:
    """Load every part of a checkpoint in diffusers layout.

    The transformer computes in `dtype` (on a CPU leave it at fp32: half precision is slower there).
    `numerics` is applied before, and marks the model's revision. Raises `CheckpointRefused` with the file and
    the reason.
    """
    numerics, place = numerics or Numerics(), torch.device(device)
    numerics.apply(place)
    index = read_index(folder)
    with kind_of(folder, "vae", index, CODECS) as codecs:
        codec = codecs.load(folder / "vae", dtype, device)
    with kind_of(folder, "text_encoder", index, TEXT_ENCODERS) as encoders:
        text_encoder = encoders.load(folder / "text_encoder", dtype, device)
    schedule = load_schedule(folder)
    module = load_transformer(folder / "transformer", dtype, device, policy)
    eager = serving(module)
    transformer: AnyTransformer = eager
    if numerics.compiled:
        size = (index.card.height // LATENT_STRIDE, index.card.width // LATENT_STRIDE)
        transformer = compiled_or_eager(module, eager, size, text_encoder.length)
    mark = numerics.mark(place, isinstance(transformer, CompiledTransformer))
    revision = revision_of(folder) + mark
    return Model(transformer, codec, text_encoder, schedule, index.card, revision)


def load_codec(folder: Path, dtype: torch.dtype, device: Device) -> Codec:
    """A checkpoint's codec alone. Raises `CheckpointRefused`."""
    with kind_of(folder, "vae", read_index(folder), CODECS) as codecs:
        return codecs.load(folder / "vae", dtype, device)


def load_schedule(folder: Path) -> Schedule:
    """A checkpoint's noise schedule. Raises `CheckpointRefused`."""
    path = folder / "scheduler" / "scheduler_config.json"
    try:
        return Schedule.from_json(read_json(path))
    except ScheduleRefused as error:
        raise CheckpointRefused(f"{path}: {error}") from None


def revision_of(folder: Path) -> str:
    """A digest of everything that decides what a checkpoint generates."""
    digest = hashlib.sha256()
    parts = [folder / part for part in ("transformer", "vae", "text_encoder", "tokenizer", "scheduler")]
    files = [file for part in parts if part.is_dir() for file in sorted(part.iterdir()) if file.is_file()]
    for file in (folder / "model_index.json", *files):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder)} {size}\n".encode())
        with file.open("rb") as content:
            digest.update(content.read(HASHED_WHOLE if size <= HASHED_WHOLE else 2**20))
    return digest.hexdigest()
