"""One session's world: all of its state in one place, moved on by whole chunks or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.camera.integrate import Camera
from engine.camera.motion import follow
from engine.codec.image import ImageState
from engine.sampler.schedule import Schedule
from engine.transformer.model import TextKV
from engine.world.caches import Caches, WorldCaches, open_caches
from engine.world.chunk import Chunk
from engine.world.condition import with_mask
from engine.world.geometry import DTYPE_NAMES
from engine.world.inputs import block_inputs
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.state import Snapshot, WorldState
from kvcache.identity import Identity, Representation


class World:
    """Made by `open_world`. Used by one thread; several worlds share one model and may take turns chunk by
    chunk.

    `begin_chunk`, the chunk's forwards, its `decode`, its `write`, then `commit`, or `rollback` at any point
    before, also where anything raised: that leaves the world as after its last committed chunk.
    """

    def __init__(self, model: Model, spec: WorldSpec, schedule: Schedule, caches: WorldCaches) -> None:
        self.model = model
        self.spec = spec
        self.schedule = schedule
        self.caches = caches
        self._picture = _pixels(spec.image, model)
        self._generator = torch.Generator(model.device)
        self._state = self._initial()
        self._chunk: Chunk | None = None
        self._text: Identity | None = None

    @property
    def chunks(self) -> int:
        """Committed chunks since the world was opened or reset."""
        return self._state.chunks

    @property
    def state(self) -> WorldState:
        """The world after its last committed chunk, beside its K/V."""
        return self._state

    def begin_chunk(self, prompt: str, motions: Sequence[Mapping[str, Any]]) -> Chunk:
        """Prepare the next block: one motion per latent frame (`engine.camera.reducer`)."""
        assert self._chunk is None, "one chunk is in flight at a time"
        try:
            self._chunk = self._prepare(prompt, motions)
        except BaseException:
            self.rollback()
            raise
        return self._chunk

    def commit(self) -> None:
        """Make the chunk part of the world. Needs the decoded and written chunk."""
        chunk = self._chunk
        assert chunk is not None, "there is no chunk in flight"
        after = chunk.after()
        self.caches.view.commit()
        self._state, self._chunk = after, None

    def rollback(self) -> None:
        """Forget the chunk in flight; without one, does nothing."""
        self._chunk = None
        self.caches.view.rollback()
        self._generator.set_state(self._state.generator)

    def reset(self) -> None:
        """Back to the first frame: generator reseeded, pose, histories and all K/V empty."""
        self._chunk = None
        self.caches.view.reset()
        self.caches.text.invalidate(reason="reset")
        self._text = None
        self._state = self._initial()

    def close(self) -> None:
        """Release all memory; idempotent. What raises may be tried again."""
        self._chunk = None
        self.caches.close()

    def snapshot(self) -> Snapshot:
        """A copy of everything, as of the last commit."""
        return Snapshot(self._state, self.caches.view.state())

    def restore(self, snapshot: Snapshot) -> None:
        """Become what `snapshot` was taken of (of a world of the same model and spec)."""
        self._chunk = None
        self.caches.view.restore(snapshot.view)
        self._state = snapshot.state
        self._generator.set_state(snapshot.state.generator)

    def _initial(self) -> WorldState:
        self._generator.manual_seed(self.spec.seed)
        return WorldState(
            chunks=0,
            prompt=self.spec.prompt,
            camera=Camera.at(self.spec.origin),
            generator=self._generator.get_state(),
            image=ImageState(self.spec.height, self.spec.width, self._picture),
            decoder=(),
            last_latent=None,
        )

    @torch.inference_mode()
    def _prepare(self, prompt: str, motions: Sequence[Mapping[str, Any]]) -> Chunk:
        state, config = self._state, self.model.transformer.config
        frames = config.num_frames_per_block
        assert len(motions) == frames, f"expected {frames} motions, got {len(motions)}"
        lens = self.model.lens(self.spec.width, self.spec.height)
        path = follow(state.camera, motions, lens, self.spec.origin)
        text = self._text_kv(prompt)
        latents, image = self.model.image_condition.latents(state)
        condition = with_mask(latents, state.chunks, config)
        inputs = block_inputs(self.model, condition, state.camera.pose, path, lens, state.chunks * frames)
        return Chunk(
            model=self.model,
            schedule=self.schedule,
            generator=self._generator,
            before=state,
            prompt=prompt,
            camera=path.cameras[-1],
            image=image,
            inputs=inputs,
            text=text,
            slots=self.caches.begin(),
            size=(self.spec.width, self.spec.height),
        )

    def _text_kv(self, prompt: str) -> TextKV:
        """The prompt's cross-attention K/V: projected once, kept until another prompt comes."""
        revision = hashlib.sha256(prompt.encode()).hexdigest()
        scope = self.caches.text
        if self._text is not None and self._text.condition_revision == revision:
            found = scope.lookup(self._text)
            if found is not None:
                return found
        encoded = self.model.text_encoder.encode(prompt).to(self.model.device, self.model.dtype)
        identity = self._identity(revision, encoded.shape[1])
        with scope.build(identity) as ticket:
            layers = scope.publish(ticket, self.model.transformer.text(encoded))
        self._text = identity
        return layers

    def _identity(self, revision: str, length: int) -> Identity:
        config = self.model.transformer.config
        representation = Representation(
            layers=config.num_layers,
            batch=1,
            length=length,
            heads=config.num_attention_heads,
            head_dim=config.attention_head_dim,
            dtype=DTYPE_NAMES[self.model.dtype],
            device=str(self.model.device),
            layout="BSND",
        )
        return Identity("text", 0, revision, "transformer", self.model.revision, "", representation)


def open_world(model: Model, spec: WorldSpec, caches: Caches) -> World:
    """Allocate a world. Raises `ScheduleRefused` for a shift that can't be had, and what the caches raise."""
    schedule = model.schedule if spec.flow_shift is None else model.schedule.shifted(spec.flow_shift)
    own = open_caches(spec.world, model.geometry(spec.width, spec.height), caches)
    return World(model, spec, schedule, own)


def _pixels(image: NDArray[np.uint8], model: Model) -> Tensor:
    """uint8 [H, W, 3] -> [3, H, W] in -1..1."""
    tensor = torch.from_numpy(np.ascontiguousarray(image)).to(model.device, torch.float32)
    return tensor.permute(2, 0, 1).contiguous() / 127.5 - 1
