"""What the worker asks of vLLM-Omni, whatever answers: the installed package, or a test's recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.api import Control


class OmniFailed(Exception):
    """vLLM-Omni raised, answered an error, or answered for another chunk; says what it said first."""


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """What every tick of a world carries: its first frame, RGB [H, W, 3], and how noise is drawn."""

    image: NDArray[np.uint8]
    seed: int
    flow_shift: float | None
    steps: int

    @property
    def width(self) -> int:
        """Pixels."""
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        """Pixels."""
        return int(self.image.shape[0])


@dataclass(frozen=True, slots=True)
class Echo:
    """Which chunk an output is of; a tick and its output must agree in all of it."""

    session_id: str
    request_id: str
    chunk_index: int
    event_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OmniTick:
    """One block to compute."""

    echo: Echo
    prompt: str
    control: Control


@dataclass(frozen=True, slots=True, eq=False)
class OmniChunk:
    """One block: its clean latents, fp32 [1, C, F, h, w], normalised as `engine.codec.codec` wants them."""

    echo: Echo
    latents: Tensor


class Omni(Protocol):
    """One deployment of one replica. All calls are made on one event loop; they raise `OmniFailed`."""

    async def run_tick(self, opening: Opening, tick: OmniTick) -> OmniChunk:
        """Compute a block; a session begins with its first one. A task that is cancelled aborts it."""

    async def reset_session(self, session_id: str) -> None:
        """Back to before the first block."""

    async def close_session(self, session_id: str) -> None:
        """Release what the session holds."""

    async def check(self) -> None:
        """Raise where it has died."""

    def stop(self) -> None:
        """End its processes; idempotent."""
