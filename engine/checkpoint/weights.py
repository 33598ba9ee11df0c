"""A transformer from a checkpoint's `transformer` folder."""

from __future__ import annotations

from pathlib import Path

import torch

from attention.selection import BackendPolicy
from engine.checkpoint.index import CheckpointRefused, read_json
from engine.checkpoint.tensors import NamesRefused, check_names, load_tensors
from engine.transformer.config import ConfigRefused, TransformerConfig
from engine.transformer.model import WorldTransformer

__all__ = ["NamesRefused", "build_on_meta", "check_names", "load_transformer", "read_config"]


def load_transformer(
    folder: Path,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    policy: BackendPolicy | None = None,
) -> WorldTransformer:
    """Build from `config.json` and load, casting to `dtype` on the way; ready for inference.

    Raises `CheckpointRefused` for unreadable files and configurations, `NamesRefused` for other parameters.
    """
    model = build_on_meta(read_config(folder), policy)
    model.load_state_dict(load_tensors(model.state_dict(), folder, dtype, device), assign=True)
    return model.requires_grad_(False).eval()


def read_config(folder: Path) -> TransformerConfig:
    """`config.json` of a `transformer` folder. Raises `CheckpointRefused`."""
    try:
        return TransformerConfig.from_json(read_json(folder / "config.json"))
    except ConfigRefused as error:
        raise CheckpointRefused(f"{folder}/config.json: {error}") from None


def build_on_meta(config: TransformerConfig, policy: BackendPolicy | None = None) -> WorldTransformer:
    """The module without memory for its parameters."""
    with torch.device("meta"):
        return WorldTransformer(config, policy)
