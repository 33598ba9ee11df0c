"""Golden files as they lie: `PREFIX.json` beside `PREFIX.safetensors`, checked before they are played.

The form is described in the README of the goldens (`tests/data/README.md`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.sampler.schedule import Step
from engine.transformer.config import TransformerConfig

KEYS = frozenset("wasdijkl")


class GoldenRefused(ValueError):
    """A golden file is missing or has another form; says which and why."""


def read_golden(prefix: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON object and the tensors of one golden. Raises `GoldenRefused`."""
    try:
        meta = json.loads(prefix.with_name(prefix.name + ".json").read_text(encoding="utf-8"))
        tensors = load_file(prefix.with_name(prefix.name + ".safetensors"))
    except (OSError, ValueError, SafetensorError) as error:
        raise GoldenRefused(str(error)) from None
    if not isinstance(meta, dict) or not meta:
        raise GoldenRefused(f"the JSON must be an object with something in it, got {_short(meta)}")
    return meta, tensors


def whole(meta: Mapping[str, Any], name: str, least: int) -> int:
    """An integer of the JSON object. Raises `GoldenRefused`."""
    value = _member(meta, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise GoldenRefused(f"{name}: expected an integer of at least {least}, got {_short(value)}")
    return value


def mapping(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object in the JSON object. Raises `GoldenRefused`."""
    value = _member(meta, name)
    if not isinstance(value, Mapping):
        raise GoldenRefused(f"{name}: expected an object, got {_short(value)}")
    return value


def steps_of(meta: Mapping[str, Any]) -> tuple[Step, ...]:
    """The probes' noise levels. Raises `GoldenRefused`."""
    pairs = _member(meta, "schedule")
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise GoldenRefused(f"schedule: expected a list of [timestep, sigma], got {_short(pairs)}")
    return tuple(Step(float(timestep), float(sigma)) for timestep, sigma in pairs)


def script_of(cases: Mapping[str, Any], name: str) -> list[frozenset[str]]:
    """The keys of each latent frame, in lower case. Raises `GoldenRefused`."""
    script = cases[name]
    if not isinstance(script, list) or not script or not all(isinstance(keys, list) for keys in script):
        raise GoldenRefused(f"{name}: expected a list of lists of keys, got {_short(script)}")
    frames = [frozenset(str(key).lower() for key in keys) for keys in script]
    for keys in frames:
        if not keys <= KEYS:
            raise GoldenRefused(f"{name}: expected keys of {''.join(sorted(KEYS))}, got {sorted(keys)}")
    return frames


def size_of(name: str) -> tuple[int, int]:
    """Width and height of a camera case `NAME@WxH`, in pixels. Raises `GoldenRefused`."""
    width, _, height = name.rpartition("@")[2].partition("x")
    if not all(side.isdecimal() and int(side) > 0 and int(side) % 8 == 0 for side in (width, height)):
        raise GoldenRefused(f"expected cases named NAME@WIDTHxHEIGHT, multiples of 8, got {_short(name)}")
    return int(width), int(height)


def tensor_of(tensors: Mapping[str, Tensor], name: str, *shape: int | None) -> Tensor:
    """A tensor of that shape, where None is any size. Raises `GoldenRefused`."""
    if name not in tensors:
        raise GoldenRefused(f"there is no tensor {name}")
    came = tensors[name]
    if not came.is_floating_point():
        raise GoldenRefused(f"{name}: expected floating point numbers, got {came.dtype}")
    alike = len(came.shape) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, came.shape, strict=True)
    )
    if not alike:
        wanted = [("any" if size is None else size) for size in shape]
        raise GoldenRefused(f"{name}: expected shape {wanted}, got {list(came.shape)}")
    return came


def block_tensors(
    tensors: Mapping[str, Tensor], block: int, config: TransformerConfig, steps: int, height: int, width: int
) -> dict[str, Tensor]:
    """What a file holds of one block, in float32. Raises `GoldenRefused`."""
    frames = config.num_frames_per_block
    shapes: dict[str, tuple[int, ...]] = {
        "condition": (1, config.in_channels - config.out_channels),
        "camera": (1, config.camera_channels),
        "noise": (steps, config.out_channels),
        "flow": (steps + 1, config.out_channels),
        "x0": (1, config.out_channels),
    }
    return {
        name: tensor_of(tensors, f"block{block}/{name}", *leading, frames, height, width).to(torch.float32)
        for name, leading in shapes.items()
    }


def _member(meta: Mapping[str, Any], name: str) -> Any:
    if name not in meta:
        raise GoldenRefused(f"the JSON has no {name}")
    return meta[name]


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(
            isinstance(part, (int, float)) and not isinstance(part, bool) and math.isfinite(part)
            for part in pair
        )
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
