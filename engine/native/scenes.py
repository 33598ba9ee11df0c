"""The first frame of a world: a scene of the checkpoint, or the client's own picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.api import OpenWorld, WorldRefused
from engine.camera.algebra import IDENTITY, Pose
from engine.checkpoint.scenes import SceneFile
from engine.media.image import decode_image


@dataclass(frozen=True, slots=True, eq=False)
class FirstFrame:
    """Pixels, RGB [H, W, 3], and where they stand in the coordinates of their place."""

    image: NDArray[np.uint8]
    origin: Pose = IDENTITY


def first_frame(request: OpenWorld, scenes: Mapping[str, SceneFile]) -> FirstFrame:
    """In the size of the video. Raises `WorldRefused` for an unknown scene or a bad picture."""
    if (request.image is None) == (request.scene is None):
        raise WorldRefused("image", "exactly one of image and scene is needed")
    if request.image is not None:
        return FirstFrame(decode_image(request.image, request.width, request.height))
    scene = scenes.get(request.scene or "")
    if scene is None:
        allowed = ", ".join(scenes) or "none: this checkpoint has no scenes"
        raise WorldRefused("scene", f"scene is {(request.scene or '')[:80]!r}; allowed are {allowed}")
    return FirstFrame(decode_image(scene.picture.read_bytes(), request.width, request.height), scene.origin)
