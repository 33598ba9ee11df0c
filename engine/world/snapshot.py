"""A world as a file, and back: what is revived goes on bit for bit as what was saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from engine.api import SnapshotRefused
from engine.camera.integrate import Camera
from engine.codec.image import ImageState
from engine.world.snapshot_file import Part, read_snapshot, require, write_snapshot
from engine.world.state import Snapshot, WorldState
from engine.world.world import World
from kvcache.errors import RestoreRefused
from kvcache.view import ViewState

DTYPES: Final = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint8: "U8",
}
_NAMED: Final = {name: dtype for dtype, name in DTYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class TakenSnapshot:
    """A copy of a world, which goes on meanwhile. `pack` may run on another thread."""

    snapshot: Snapshot
    of: Mapping[str, object]

    def pack(self) -> bytes:
        """The file."""
        tensors = dict(_tensors(self.snapshot))
        parts = {name: _part(tensor) for name, tensor in tensors.items()}
        layouts = {name: _layout(tensor) for name, tensor in tensors.items()}
        return write_snapshot({**self.of, "state": _plain(self.snapshot), "layouts": layouts}, parts)


def take(world: World) -> TakenSnapshot:
    """Copy a world as it is after its last commit, also where a chunk is in flight."""
    return TakenSnapshot(world.snapshot(), identity(world))


def restore(world: World, data: bytes) -> None:
    """Make a world what `data` was taken of: another one of the same model and opening.

    Raises `SnapshotRefused`; then the world is as it was.
    """
    facts, parts = read_snapshot(data)
    require(facts, identity(world))
    try:
        snapshot = _snapshot(facts, parts, world.model.device)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise SnapshotRefused(f"the snapshot's content can't be read: {error!r}") from error
    _become(world, snapshot)


def fork(source: World, world: World) -> None:
    """Make a world what `source` is after its last commit; they share no memory that either writes to.

    It is a copy, not pages shared until they are written to. Each block rewrites slots of the window, so that
    after (view - sink) / block chunks only the sink's pages would still be shared (3 of tiny's 9, 9 of
    LingBot's 18); and a layer's view would be two buffers where attention now reads one contiguous slice, at
    every probe of every later chunk. The copy is paid once.

    Raises `SnapshotRefused` where they differ in model or opening.
    """
    require(json.loads(json.dumps(identity(source))), identity(world))
    _become(world, source.snapshot())


def identity(world: World) -> dict[str, object]:
    """Everything that has to be the same where a snapshot is restored, by the names of messages."""
    model, spec = world.model, world.spec
    geometry = asdict(world.caches.view.geometry)
    return {
        "kind": "world",
        "model": model.card.name,
        "model revision": model.revision,
        "kind of device": model.device.type,
        **{f"geometry.{name}": value for name, value in geometry.items()},
        "width": spec.width,
        "height": spec.height,
        "seed": spec.seed,
        "image (SHA-256)": hashlib.sha256(np.ascontiguousarray(spec.image).data).hexdigest(),
        "origin": spec.origin,
        "schedule": world.schedule.to_json(),
    }


def _become(world: World, snapshot: Snapshot) -> None:
    try:
        world.restore(snapshot)
    except RestoreRefused as refused:
        raise SnapshotRefused(f"the snapshot's K/V does not fit: {refused}") from refused


def _tensors(snapshot: Snapshot) -> Iterator[tuple[str, Tensor]]:
    state, view = snapshot.state, snapshot.view
    series = {
        "keys": view.keys,
        "values": view.values,
        "decoder": state.decoder,
        "image": state.image.history,
    }
    for name, tensors in series.items():
        yield from ((f"{name}.{index}", tensor) for index, tensor in enumerate(tensors))
    yield "generator", state.generator
    optional = (("picture", state.image.picture), ("constant", state.image.constant))
    for name, tensor in (*optional, ("last_latent", state.last_latent)):
        if tensor is not None:
            yield name, tensor


def _plain(snapshot: Snapshot) -> dict[str, object]:
    state = snapshot.state
    return {
        "chunks": state.chunks,
        "frames": snapshot.view.frames,
        "prompt": state.prompt,
        "pose": state.camera.pose,
        "pitch": state.camera.pitch,
        "blanks": state.image.blanks,
    }


def _snapshot(facts: Mapping[str, Any], parts: Mapping[str, Part], device: torch.device) -> Snapshot:
    plain, layouts = facts["state"], facts["layouts"]
    tensors = {name: _tensor(part, layouts[name], device) for name, part in parts.items()}

    def series(name: str) -> tuple[Tensor, ...]:
        count = sum(key.startswith(f"{name}.") for key in tensors)
        return tuple(tensors[f"{name}.{index}"] for index in range(count))

    image = ImageState(
        facts["height"],
        facts["width"],
        tensors.get("picture"),
        series("image"),
        plain["blanks"],
        tensors.get("constant"),
    )
    state = WorldState(
        chunks=plain["chunks"],
        prompt=plain["prompt"],
        camera=Camera(tuple(tuple(row) for row in plain["pose"]), plain["pitch"]),
        generator=tensors["generator"],
        image=image,
        decoder=series("decoder"),
        last_latent=tensors.get("last_latent"),
    )
    return Snapshot(state, ViewState(plain["frames"], series("keys"), series("values")))


def _part(tensor: Tensor) -> Part:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return Part(DTYPES[tensor.dtype], tuple(tensor.shape), flat.view(torch.uint8).numpy().data)


def _layout(tensor: Tensor) -> dict[str, object]:
    """Where it lies and how: a convolution may round otherwise over another order of memory."""
    return {"strides": tensor.stride(), "device": tensor.device.type}


def _tensor(part: Part, layout: Mapping[str, Any], device: torch.device) -> Tensor:
    dtype = _NAMED[part.dtype]
    place = device if layout["device"] == device.type else torch.device(layout["device"])
    tensor = torch.empty_strided(part.shape, layout["strides"], dtype=dtype, device=place)
    if tensor.numel():
        tensor.copy_(torch.frombuffer(bytearray(part.data), dtype=dtype).reshape(part.shape))
    return tensor
