"""`model_index.json`: which classes a checkpoint's parts are, and what a service says about it.

Beside diffusers' own entries (`"transformer": ["library", "Class"]`), the file may hold `worldline`, an
object with `name`, `width`, `height`, `fps`, `max_pixels` (the largest picture that it is good for, width
times height), `description` and `intrinsics` (fx, fy, cx, cy in the 832x480 reference frame; absent: 500
pixels at any size). All of them have defaults.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.camera.intrinsics import SMALLEST_FOCAL, Intrinsics
from engine.worker.host import LoadRefused
from engine.world.spec import MAX_PIXELS

PARTS = ("transformer", "vae", "text_encoder", "scheduler")


class CheckpointRefused(LoadRefused, ValueError):
    """A checkpoint folder can't be loaded; says which file and why."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a checkpoint says about its use: default and largest picture in pixels, frames per second,
    intrinsics.
    """

    name: str
    width: int = 832
    height: int = 480
    fps: int = 16
    max_pixels: int = MAX_PIXELS  # width * height at most
    description: str = ""
    intrinsics: Intrinsics | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """A checkpoint's parts by class name, and its card."""

    classes: Mapping[str, str]
    card: Card


def read_index(folder: Path) -> Index:
    """Raises `CheckpointRefused` where the file is missing, no JSON, or lacks a part."""
    data = read_json(folder / "model_index.json")
    classes: dict[str, str] = {}
    for part in PARTS:
        entry = data.get(part)
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], str)):
            raise CheckpointRefused(
                f"{folder}/model_index.json: {part}: expected [library, class], got {entry!r}"
            )
        classes[part] = entry[1]
    return Index(classes, _card(folder, data.get("worldline", {})))


def read_json(path: Path) -> dict[str, Any]:
    """An object from a file of a checkpoint. Raises `CheckpointRefused`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointRefused(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointRefused(f"{path}: {error}") from None
    if not isinstance(data, dict):
        raise CheckpointRefused(f"{path}: expected an object")
    return data


def _card(folder: Path, data: Any) -> Card:
    where = f"{folder}/model_index.json: worldline"
    if not isinstance(data, dict):
        raise CheckpointRefused(f"{where}: expected an object, got {data!r}")
    whole = {"width": int, "height": int, "fps": int, "max_pixels": int}
    known = {"name": str, **whole, "description": str, "intrinsics": list}
    for name, value in data.items():
        if name not in known:
            raise CheckpointRefused(f"{where}.{name}: unknown; allowed are {', '.join(known)}")
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise CheckpointRefused(f"{where}.{name}: expected {known[name].__name__}, got {value!r}")
        if isinstance(value, int) and value < 1:
            raise CheckpointRefused(f"{where}.{name}: expected at least 1, got {value}")
    values = {"name": folder.name, **data}
    if "intrinsics" in data:
        values["intrinsics"] = _intrinsics(where, data["intrinsics"])
    card = Card(**values)
    if not card.width * card.height <= card.max_pixels <= MAX_PIXELS:
        own = card.width * card.height
        raise CheckpointRefused(
            f"{where}.max_pixels: expected {own} ({card.width}x{card.height}) to {MAX_PIXELS}, "
            f"got {card.max_pixels}"
        )
    return card


def _intrinsics(where: str, value: list[Any]) -> Intrinsics:
    numbers = [one for one in value if isinstance(one, (int, float)) and not isinstance(one, bool)]
    whole = len(value) == len(numbers) == 4 and all(map(math.isfinite, numbers))
    if not whole or min(numbers[:2]) < SMALLEST_FOCAL:
        raise CheckpointRefused(f"{where}.intrinsics: expected [fx, fy, cx, cy], got {value!r}")
    fx, fy, cx, cy = map(float, numbers)
    return fx, fy, cx, cy
