"""One block on its way from noise to pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.camera.integrate import Camera
from engine.codec.codec import History
from engine.codec.image import ImageState
from engine.codec.pixels import pixels_of
from engine.sampler.probes import probes
from engine.sampler.schedule import Schedule
from engine.transformer.model import BlockInputs, TextKV
from engine.world.caches import LayerSlots
from engine.world.model import CLEAN, Model
from engine.world.state import WorldState


@dataclass(slots=True, eq=False)
class Chunk:
    """Made by `World.begin_chunk`: run `forwards` to its end, `decode`, `write`; the world commits or forgets
    it.
    """

    model: Model
    schedule: Schedule
    generator: torch.Generator
    before: WorldState
    prompt: str
    camera: Camera  # after the block
    image: ImageState  # after the block
    inputs: BlockInputs
    text: TextKV
    slots: Sequence[LayerSlots]
    size: tuple[int, int]  # width, height
    clean: Tensor | None = None  # [1, C, F, h, w], what the last probe left
    finished: bool = False
    decoder: History | None = field(default=None)
    written: bool = False

    def forwards(self) -> Iterator[None]:
        """Run one probe at each step, so that a caller can look up between them."""
        steps = probes(self.schedule, self._draw, self._predict)
        for _ in self.schedule.steps:
            with torch.inference_mode():
                self.clean = next(steps)
            yield
        self.finished = True

    @torch.inference_mode()
    def decode(self) -> NDArray[np.uint8]:
        """The block's frames, RGB [n, H, W, 3]: 1 + 4 (F - 1) of the first block, 4 F of a later one."""
        assert self.finished and self.clean is not None, "decode follows the last forward"
        frames, self.decoder = self.model.codec.decode(self.clean, self.before.decoder)
        return pixels_of(frames)

    @torch.inference_mode()
    def write(self) -> None:
        """The commit pass: the clean block's K/V at t = 0, in place of what the last probe wrote there."""
        assert self.clean is not None and self.decoder is not None, "write follows decode"
        modulation = self.model.modulation(CLEAN)
        latent = self.clean.to(self.model.dtype)
        self.model.transformer.write(latent, modulation, self.inputs, self.text, self.slots)
        self.written = True

    @torch.inference_mode()
    def after(self) -> WorldState:
        """The world's state once the block is kept."""
        assert self.clean is not None and self.decoder is not None and self.written, "a commit follows write"
        return WorldState(
            chunks=self.before.chunks + 1,
            prompt=self.prompt,
            camera=self.camera,
            generator=self.generator.get_state(),
            image=self.image,
            decoder=self.decoder,
            last_latent=self.clean[:, :, -1:].clone(),
        )

    def _draw(self) -> Tensor:
        return self.model.noise(self.generator, *self.size)

    def _predict(self, number: int, noisy: Tensor) -> Tensor:
        modulation = self.model.modulation(self.schedule.steps[number].timestep)
        latent = noisy.to(self.model.dtype)
        return self.model.transformer.forward(latent, modulation, self.inputs, self.text, self.slots)
