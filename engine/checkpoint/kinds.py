"""The kinds of codecs and text encoders, by the class names of model_index.json: one entry for a new kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from engine.checkpoint.index import CheckpointRefused, Index
from engine.codec.codec import Codec
from engine.codec.streaming import load_tiny_codec, plan_tiny_codec
from engine.text.encoder import TextEncoder
from engine.text.words import LENGTH, WordTable

Kind = TypeVar("Kind")
Device = torch.device | str


@dataclass(frozen=True, slots=True)
class CodecKind:
    """`load` reads a `vae` folder; `plan` only its configuration, for a codec without memory for its weights
    (on `meta`), which can say what its histories take.
    """

    load: Callable[[Path, torch.dtype, Device], Codec]
    plan: Callable[[Path, torch.dtype], Codec]


@dataclass(frozen=True, slots=True)
class TextKind:
    """`load` reads a `text_encoder` folder, `length` is how many tokens a prompt will have."""

    load: Callable[[Path, torch.dtype, Device], TextEncoder]
    length: Callable[[Path], int]


def _tiny_codec(folder: Path, dtype: torch.dtype, device: Device) -> Codec:
    return load_tiny_codec(folder, device)


def _tiny_codec_plan(folder: Path, dtype: torch.dtype) -> Codec:
    return plan_tiny_codec(folder)


def _wan_codec(folder: Path, dtype: torch.dtype, device: Device) -> Codec:
    with _extra(folder):
        from engine.codec.wan import load_wan_codec
    return load_wan_codec(folder, dtype, device)


def _wan_codec_plan(folder: Path, dtype: torch.dtype) -> Codec:
    with _extra(folder):
        from engine.codec.wan import plan_wan_codec
    return plan_wan_codec(folder, dtype)


def _word_table(folder: Path, dtype: torch.dtype, device: Device) -> TextEncoder:
    return WordTable.load(folder)


def _word_table_length(folder: Path) -> int:
    return LENGTH


def _umt5(folder: Path, dtype: torch.dtype, device: Device) -> TextEncoder:
    with _extra(folder):
        from engine.text.umt5 import load_umt5
    return load_umt5(folder, dtype, device)


def _umt5_length(folder: Path) -> int:
    with _extra(folder):
        from engine.text import umt5
    return umt5.LENGTH


CODECS: Mapping[str, CodecKind] = {
    "TinyCodec": CodecKind(_tiny_codec, _tiny_codec_plan),
    "AutoencoderKLWan": CodecKind(_wan_codec, _wan_codec_plan),
}
TEXT_ENCODERS: Mapping[str, TextKind] = {
    "WordTable": TextKind(_word_table, _word_table_length),
    "UMT5EncoderModel": TextKind(_umt5, _umt5_length),
}


@contextmanager
def kind_of(folder: Path, part: str, index: Index, kinds: Mapping[str, Kind]) -> Iterator[Kind]:
    """What can read a part of a checkpoint; what goes wrong meanwhile is refused with the part's folder.

    Raises `CheckpointRefused`, for an unknown class name too.
    """
    name = index.classes[part]
    if name not in kinds:
        known = ", ".join(kinds)
        raise CheckpointRefused(f"{folder}/model_index.json: {part}: {name!r} is unknown; known are {known}")
    try:
        yield kinds[name]
    except CheckpointRefused:
        raise
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CheckpointRefused(f"{folder / part}: {error}") from error


@contextmanager
def _extra(folder: Path) -> Iterator[None]:
    """Says what to install where a part's library is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        advice = "pip install 'worldline[lingbot]'"
        raise CheckpointRefused(f"{folder}: needs {missing.name}, which isn't installed: {advice}") from None
