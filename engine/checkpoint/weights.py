"""A transformer's weights from safetensors, one file or an index of shards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from attention.selection import BackendPolicy
from engine.checkpoint.index import CheckpointRefused, read_json
from engine.transformer.config import ConfigRefused, TransformerConfig
from engine.transformer.model import WorldTransformer

NAMES = ("diffusion_pytorch_model", "model")


class NamesRefused(CheckpointRefused):
    """Other parameters than the architecture has: lists what is missing, unknown or of another shape."""


def load_transformer(
    folder: Path,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    policy: BackendPolicy | None = None,
) -> WorldTransformer:
    """Build from `config.json` and load, casting to `dtype` on the way; ready for inference.

    Raises `CheckpointRefused` for unreadable files and configurations, `NamesRefused` for other parameters.
    """
    try:
        config = TransformerConfig.from_json(read_json(folder / "config.json"))
    except ConfigRefused as error:
        raise CheckpointRefused(f"{folder}/config.json: {error}") from None
    model = build_on_meta(config, policy)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    files = weight_files(folder)
    check_names(wanted, _shapes(files), folder)
    loaded: dict[str, torch.Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (not a dict)
                loaded[name] = tensors.get_tensor(name).to(device=device, dtype=dtype)
    model.load_state_dict(loaded, assign=True)
    return model.requires_grad_(False).eval()


def build_on_meta(config: TransformerConfig, policy: BackendPolicy | None = None) -> WorldTransformer:
    """The module without memory for its parameters."""
    with torch.device("meta"):
        return WorldTransformer(config, policy)


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors of a part. Raises `CheckpointRefused` where there are none."""
    for name in NAMES:
        index = folder / f"{name}.safetensors.index.json"
        if index.exists():
            shards = sorted(set(read_json(index).get("weight_map", {}).values()))
            return tuple(folder / Path(shard).name for shard in shards)
        if (folder / f"{name}.safetensors").exists():
            return (folder / f"{name}.safetensors",)
    raise CheckpointRefused(
        f"{folder}: no weights; expected {' or '.join(f'{n}.safetensors' for n in NAMES)}"
    )


def check_names(wanted: dict[str, tuple[int, ...]], came: dict[str, tuple[int, ...]], where: object) -> None:
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


def _shapes(files: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (not a dict)
                    shapes[name] = tuple(tensors.get_slice(name).get_shape())
        except (OSError, SafetensorError) as error:
            raise CheckpointRefused(f"{file}: {error}") from None
    return shapes
