"""From a checkpoint folder to a model that is ready to serve."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from attention.selection import BackendPolicy
from engine.checkpoint.index import CheckpointRefused, Index, read_index, read_json
from engine.checkpoint.weights import load_transformer
from engine.codec.codec import Codec
from engine.codec.streaming import load_tiny_codec
from engine.numerics import Numerics
from engine.sampler.schedule import Schedule, ScheduleRefused
from engine.text.encoder import TextEncoder
from engine.text.words import WordTable
from engine.transformer.compiled import CompiledTransformer
from engine.transformer.equality import AnyTransformer, compiled_or_eager
from engine.transformer.serving import serving
from engine.world.geometry import LATENT_STRIDE
from engine.world.model import Model

T = TypeVar("T")

Device = torch.device | str


def _tiny_codec(folder: Path, dtype: torch.dtype, device: Device) -> Codec:
    return load_tiny_codec(folder, device)


def _word_table(folder: Path, dtype: torch.dtype, device: Device) -> TextEncoder:
    return WordTable.load(folder)


def _wan_codec(folder: Path, dtype: torch.dtype, device: Device) -> Codec:
    with _extra(folder):
        from engine.codec.wan import load_wan_codec
    return load_wan_codec(folder, dtype, device)


def _umt5(folder: Path, dtype: torch.dtype, device: Device) -> TextEncoder:
    with _extra(folder):
        from engine.text.umt5 import load_umt5
    return load_umt5(folder, dtype, device)


CODECS: Mapping[str, Callable[[Path, torch.dtype, Device], Codec]] = {
    "TinyCodec": _tiny_codec,
    "AutoencoderKLWan": _wan_codec,
}
TEXT_ENCODERS: Mapping[str, Callable[[Path, torch.dtype, Device], TextEncoder]] = {
    "WordTable": _word_table,
    "UMT5EncoderModel": _umt5,
}
"""Loaders by the class names of model_index.json; a new kind of codec or text encoder is one more entry."""

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
    codec = _part(folder, "vae", index, CODECS, dtype, device)
    text_encoder = _part(folder, "text_encoder", index, TEXT_ENCODERS, dtype, device)
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
    return _part(folder, "vae", read_index(folder), CODECS, dtype, device)


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


def _part(
    folder: Path,
    part: str,
    index: Index,
    loaders: Mapping[str, Callable[[Path, torch.dtype, Device], T]],
    dtype: torch.dtype,
    device: Device,
) -> T:
    name = index.classes[part]
    if name not in loaders:
        known = ", ".join(loaders)
        raise CheckpointRefused(f"{folder}/model_index.json: {part}: {name!r} is unknown; known are {known}")
    try:
        return loaders[name](folder / part, dtype, device)
    except CheckpointRefused:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointRefused(f"{folder / part}: {error}") from error


@contextmanager
def _extra(folder: Path) -> Iterator[None]:
    """Says what to install where a part's library is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        advice = "pip install 'worldline[lingbot]'"
        raise CheckpointRefused(f"{folder}: needs {missing.name}, which isn't installed: {advice}") from None
