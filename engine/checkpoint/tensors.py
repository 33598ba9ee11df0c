"""Safetensors of one part of a checkpoint: found, checked against what the part wants, loaded."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from rich.console import Console
from rich.progress import track
from safetensors import SafetensorError, safe_open

from engine.checkpoint.index import CheckpointRefused, read_json

NAMES = ("diffusion_pytorch_model", "model")
Shapes = dict[str, tuple[int, ...]]

HEADER_LIMIT: Final = 100_000_000  # bytes, the format's own
_LENGTH: Final = struct.Struct("<Q")


class NamesRefused(CheckpointRefused):
    """Other parameters than the architecture has: lists what is missing, unknown or of another shape."""


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors of a part, one file or an index of shards.

    Raises `CheckpointRefused` where there are none: pickled weights are never read.
    """
    for name in NAMES:
        index = folder / f"{name}.safetensors.index.json"
        if index.exists():
            shards = read_json(index).get("weight_map")
            if not (isinstance(shards, dict) and shards and all(isinstance(s, str) for s in shards.values())):
                raise CheckpointRefused(f"{index}: weight_map: expected an object of file names")
            return tuple(folder / Path(shard).name for shard in sorted(set(shards.values())))
        if (folder / f"{name}.safetensors").exists():
            return (folder / f"{name}.safetensors",)
    raise CheckpointRefused(
        f"{folder}: no weights; expected {' or '.join(f'{n}.safetensors' for n in NAMES)}"
    )


def load_tensors(
    wanted: Mapping[str, torch.Tensor],
    folder: Path,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, torch.Tensor]:
    """The weights of a part under the names of `wanted` (a state dict, which may lie on `meta`), in `dtype`.

    `aliases` gives names of `wanted` another one that stands for it where the files lack it. On a terminal, a
    bar shows the progress. Raises `CheckpointRefused` for unreadable files, `NamesRefused`
    for other names or shapes, before anything is loaded.
    """
    files = weight_files(folder)
    came = shapes_of(files)
    spared = {name for name, other in aliases.items() if name not in came and other in came}
    check_names({n: tuple(t.shape) for n, t in wanted.items() if n not in spared}, came, folder)
    loaded: dict[str, torch.Tensor] = {}
    quiet = not sys.stderr.isatty()
    for file in track(files, f"loading {folder.name}", console=Console(stderr=True), disable=quiet):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (not a dict)
                    loaded[name] = tensors.get_tensor(name).to(device=device, dtype=dtype)
        except (OSError, SafetensorError) as error:
            raise CheckpointRefused(f"{file}: {error}") from None
    return loaded | {name: loaded[aliases[name]] for name in spared}


def check_names(wanted: Shapes, came: Shapes, where: object) -> None:
    """Raise `NamesRefused` with every name that is missing, unknown, or has another shape."""
    problems = []
    missing, unknown = sorted(wanted.keys() - came.keys()), sorted(came.keys() - wanted.keys())
    if missing:
        problems.append("missing: " + ", ".join(missing))
    if unknown:
        problems.append("unknown: " + ", ".join(unknown))
    for name in sorted(wanted.keys() & came.keys()):
        if wanted[name] != came[name]:
            problems.append(f"{name}: shape {list(came[name])}, expected {list(wanted[name])}")
    if problems:
        raise NamesRefused(f"{where}: " + "; ".join(problems))


def shapes_of(files: Iterable[Path]) -> Shapes:
    """Every tensor's shape, from the files' headers. Raises `CheckpointRefused`."""
    shapes: Shapes = {}
    for file in files:
        try:
            table = _header(file)
            table.pop("__metadata__", None)
            shapes |= {name: tuple(int(size) for size in one["shape"]) for name, one in table.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointRefused(f"{file}: not a safetensors file: {error}") from None
    return shapes


def _header(file: Path) -> Any:
    """Read by itself: the library maps the whole file, which may exceed the memory that is asked about."""
    with file.open("rb") as content:
        (length,) = _LENGTH.unpack(content.read(_LENGTH.size).ljust(_LENGTH.size, b"\0"))
        if not 0 < length <= HEADER_LIMIT:
            raise ValueError(f"its header has {length} bytes")
        return json.loads(content.read(length))
