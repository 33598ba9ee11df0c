"""A pattern's walk as a file, and back."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

from engine.api import OpenWorld, SnapshotRefused
from engine.camera.integrate import Camera
from engine.pattern.world import Walk
from engine.world.snapshot_file import read_snapshot, require, write_snapshot


def pack_walk(request: OpenWorld, walk: Walk) -> bytes:
    """The file of a world that was opened with `request`."""
    return write_snapshot({**_identity(request), "walk": asdict(walk)}, {})


def unpack_walk(request: OpenWorld, data: bytes) -> Walk:
    """What `pack_walk` was given. Raises `SnapshotRefused` where it is damaged or of another opening."""
    facts, _ = read_snapshot(data)
    require(facts, _identity(request))
    try:
        walk = facts["walk"]
        camera = walk["camera"]
        pose = tuple(tuple(row) for row in camera["pose"])
        return Walk(walk["chunks"], walk["frames"], Camera(pose, camera["pitch"]))
    except (KeyError, TypeError) as error:
        raise SnapshotRefused(f"the snapshot's walk can't be read: {error!r}") from None


def require_same_opening(source: OpenWorld, request: OpenWorld) -> None:
    """Raise `SnapshotRefused` where a fork is asked to look otherwise than its source."""
    require(_identity(source), _identity(request))


def _identity(request: OpenWorld) -> dict[str, object]:
    image = None if request.image is None else hashlib.sha256(request.image).hexdigest()
    return {
        "kind": "pattern",
        "width": request.width,
        "height": request.height,
        "seed": request.seed,
        "scene": request.scene,
        "image (SHA-256)": image,
    }
