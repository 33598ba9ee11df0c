"""Worlds with the same inputs begin alike: the second takes its first chunk from a store.

Nothing of the block is computed on a hit, and what the world becomes is bit for bit what it would have
computed. Text K/V is not shared: the world projects its own with its second chunk.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.world.model import Model
from engine.world.state import Snapshot, WorldState
from engine.world.world import World
from kvcache.errors import Superseded
from kvcache.ledger import Ledger
from kvcache.memory import Allocation, Memory
from kvcache.sharing import (
    FirstChunkInputs,
    SharingLease,
    SharingStore,
    SharingTicket,
    open_sharing_store,
)
from kvcache.view import ViewState

_log = logging.getLogger(__name__)


class AnyChunk(Protocol):
    """A chunk that is computed, or one that is taken from the store."""

    def forwards(self) -> Iterator[None]:
        """Run the probes, one at each step."""

    def decode(self) -> NDArray[np.uint8]:
        """The block's frames, RGB [n, H, W, 3]. After the last forward."""

    def write(self) -> None:
        """The commit pass. After `decode`."""


@dataclass(frozen=True, slots=True, eq=False)
class FirstChunk:
    """What a world is after its first chunk, and the frames that it showed. All tensors are its own."""

    snapshot: Snapshot
    frames: Tensor  # uint8 [n, H, W, 3]
    held: Allocation


FirstChunks = SharingStore[FirstChunk]


def open_first_chunks(ledger: Ledger, memory: Memory, max_bytes: int) -> FirstChunks:
    """An empty store whose payloads `memory` counts."""
    return open_sharing_store(
        ledger, max_bytes, lambda payload: payload.held.bytes, free=lambda payload: memory.free(payload.held)
    )


class StoredChunk:
    """A hit: no probes to run, and frames that are there."""

    def __init__(self, payload: FirstChunk) -> None:
        self._payload = payload

    def forwards(self) -> Iterator[None]:
        """None."""
        return iter(())

    def decode(self) -> NDArray[np.uint8]:
        """A copy of the stored frames."""
        return self._payload.frames.clone().numpy()

    def write(self) -> None:
        """Nothing: its commit copies the K/V with all the rest."""


class RecordedChunk:
    """A miss: computed, and its frames remembered for those that come after."""

    def __init__(self, chunk: AnyChunk, ticket: SharingTicket) -> None:
        self.ticket = ticket
        self.frames: NDArray[np.uint8] | None = None
        self._chunk = chunk

    def forwards(self) -> Iterator[None]:
        """The chunk's."""
        return self._chunk.forwards()

    def decode(self) -> NDArray[np.uint8]:
        """The chunk's."""
        self.frames = self._chunk.decode()
        return self.frames

    def write(self) -> None:
        """The chunk's."""
        self._chunk.write()


class SharingWorld:
    """A `World` whose first chunk comes from the store where it is there, and goes to it where it is not.

    `fps` and `media` are what the frames are encoded to: part of the inputs, though not of what is stored.
    """

    def __init__(self, world: World, store: FirstChunks, memory: Memory, fps: int, media: str) -> None:
        self.world = world
        self._store = store
        self._memory = memory
        self._fps = fps
        self._media = media
        self._lease: SharingLease[FirstChunk] | None = None
        self._recorded: RecordedChunk | None = None

    @property
    def model(self) -> Model:
        """The world's."""
        return self.world.model

    @property
    def chunks(self) -> int:
        """Committed chunks since the world was opened or reset."""
        return self.world.chunks

    def begin_chunk(self, prompt: str, motions: Sequence[Mapping[str, Any]]) -> AnyChunk:
        """As the world's; on a hit, nothing is prepared."""
        if self.chunks:
            return self.world.begin_chunk(prompt, motions)
        assert self._lease is None and self._recorded is None, "one chunk is in flight at a time"
        key = self._inputs(prompt, motions).key
        self._lease = self._store.lookup(key, self.world.spec.world)
        if self._lease is not None:
            return StoredChunk(self._lease.payload)
        chunk = self.world.begin_chunk(prompt, motions)
        self._recorded = RecordedChunk(chunk, self._store.begin_build(key))
        return self._recorded

    def commit(self) -> None:
        """As the world's; a hit is copied into memory of the world's own."""
        lease, recorded = self._lease, self._recorded
        try:
            if lease is None:
                self.world.commit()
            else:
                snapshot = lease.payload.snapshot
                self.world.restore(Snapshot(_copied(snapshot.state), snapshot.view))
            if recorded is not None:
                self._publish(recorded)
        finally:
            self._end()

    def rollback(self) -> None:
        """As the world's; a build that it ends is never published."""
        self._end()
        self.world.rollback()

    def reset(self) -> None:
        """As the world's. The next chunk is a first one again."""
        self._end()
        self.world.reset()

    def snapshot(self) -> Snapshot:
        """As the world's."""
        return self.world.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """As the world's."""
        self._end()
        self.world.restore(snapshot)

    def close(self) -> None:
        """As the world's. What is in the store stays there."""
        self._end()
        self.world.close()

    def _end(self) -> None:
        if self._lease is not None:
            self._lease.give_back()
        if self._recorded is not None:
            self._store.abandon(self._recorded.ticket)
        self._lease = self._recorded = None

    def _publish(self, recorded: RecordedChunk) -> None:
        """The chunk stands whether or not the store takes it."""
        assert recorded.frames is not None
        payload, kept = None, False
        try:
            view = self.world.caches.view.state()
            payload = _payload(self.world.state, view, recorded.frames, self._memory)
            kept = self._store.publish(recorded.ticket, payload)
        except Superseded:
            pass  # another world with the same inputs began later and is not done yet
        except Exception:
            _log.warning("a first chunk could not be stored", exc_info=True)
        if payload is not None and not kept:
            self._memory.free(payload.held)

    def _inputs(self, prompt: str, motions: Sequence[Mapping[str, Any]]) -> FirstChunkInputs:
        spec, model = self.world.spec, self.world.model
        camera = {"motions": _plain(motions), "origin": _plain(spec.origin)}
        return FirstChunkInputs(
            image_digest=hashlib.sha256(np.ascontiguousarray(spec.image).tobytes()).hexdigest(),
            prompt=prompt,
            camera=json.dumps(camera, sort_keys=True),
            seed=spec.seed,
            width=spec.width,
            height=spec.height,
            fps=self._fps,
            schedule=repr(self.world.schedule),
            media=self._media,
            model_revision=f"{model.revision} {model.dtype} {model.device}",
            adapter_revision="",
        )


def _payload(state: WorldState, view: ViewState, frames: NDArray[np.uint8], memory: Memory) -> FirstChunk:
    own, pixels = _copied(state), torch.from_numpy(frames).clone()
    tensors = [*_tensors(own), *view.keys, *view.values, pixels]
    return FirstChunk(Snapshot(own, view), pixels, memory.adopt(tensors))


def _copied(state: WorldState) -> WorldState:
    """The same values in tensors that no other state has."""
    image = state.image
    return replace(
        state,
        generator=state.generator.clone(),
        image=replace(
            image,
            picture=_copy(image.picture),
            history=tuple(tensor.clone() for tensor in image.history),
            constant=_copy(image.constant),
        ),
        decoder=tuple(tensor.clone() for tensor in state.decoder),
        last_latent=_copy(state.last_latent),
    )


def _tensors(state: WorldState) -> list[Tensor]:
    image = state.image
    optional = (image.picture, image.constant, state.last_latent)
    present = [tensor for tensor in optional if tensor is not None]
    return [state.generator, *image.history, *state.decoder, *present]


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()


def _plain(value: Any) -> Any:
    """JSON-like data as `json` wants it."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
