"""`scenes.json`: the first frames that ship with a checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api import Scene
from engine.camera.algebra import IDENTITY, Pose
from engine.camera.commands import rigid_problem
from engine.checkpoint.index import CheckpointRefused


@dataclass(frozen=True, slots=True)
class SceneFile:
    """A scene, where its picture lies, and where it stands in the coordinates of its place."""

    scene: Scene
    picture: Path
    origin: Pose


def read_scenes(folder: Path) -> tuple[SceneFile, ...]:
    """A list of objects {name, title, prompt, image (a file in the folder), origin? (4x4)}; none without
    the file.

    Raises `CheckpointRefused`.
    """
    path = folder / "scenes.json"
    if not path.exists():
        return ()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointRefused(f"{path}: {error}") from None
    if not isinstance(data, list):
        raise CheckpointRefused(f"{path}: expected a list")
    scenes = tuple(_scene(folder, f"{path}[{i}]", one) for i, one in enumerate(data))
    names = [one.scene.name for one in scenes]
    for name in names:
        if names.count(name) > 1:
            raise CheckpointRefused(f"{path}: the name {name!r} is given twice")
    return scenes


def _scene(folder: Path, where: str, data: Any) -> SceneFile:
    if not isinstance(data, dict):
        raise CheckpointRefused(f"{where}: expected an object, got {data!r}")
    texts = {}
    for name in ("name", "title", "prompt", "image"):
        value = data.get(name)
        if not isinstance(value, str) or not value:
            raise CheckpointRefused(f"{where}.{name}: expected text, got {value!r}")
        texts[name] = value
    picture = folder / texts["image"]
    if not picture.is_file():
        raise CheckpointRefused(f"{where}.image: there is no {picture}")
    scene = Scene(texts["name"], texts["title"], texts["prompt"], picture.read_bytes())
    return SceneFile(scene, picture, _origin(where, data.get("origin")))


def _origin(where: str, data: Any) -> Pose:
    if data is None:
        return IDENTITY
    try:
        pose: Pose = tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in data)
        problem = rigid_problem(pose) if len(pose) == 4 else "expected 4 rows"
    except (TypeError, ValueError):
        problem = "expected a 4x4 matrix"
    if problem is not None:
        raise CheckpointRefused(f"{where}.origin: {problem}")
    return pose
