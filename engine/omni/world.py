"""A world whose blocks vLLM-Omni computes, and whose pixels are decoded here, with the world's own history.

vLLM-Omni commits a block before it answers, and takes nothing back. So a chunk that is rolled back once
its tick was sent costs the session there: it is closed, and the world is unknown from then on. The server
makes it again from its journal, tick by tick.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, cast

import numpy as np
import torch
from numpy.typing import NDArray

from engine.api import Control, OpenWorld, SnapshotRefused, Tick, UnknownWorld
from engine.camera.commands import TRACK
from engine.camera.integrate import Camera
from engine.camera.motion import IDLE_MOTION, Lens, follow
from engine.codec.codec import Codec, History
from engine.codec.pixels import pixels_of
from engine.omni.camera import control_of
from engine.omni.loop_thread import LoopThread
from engine.omni.service import Echo, Omni, OmniChunk, OmniFailed, OmniTick, Opening
from engine.worker.host import HostLost
from engine.world.geometry import LATENT_STRIDE

log = logging.getLogger(__name__)

LOOK_UP_S: Final = 0.05
"""How often the worker looks up from a tick that runs, so that a cancel is noticed."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the ticks go, and how long they may take."""

    omni: Omni
    thread: LoopThread
    codec: Codec
    frames_per_block: int
    tick_timeout_s: float
    control_timeout_s: float

    def control(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for a reset or close. Raises as `require_alive`, `OmniFailed`, `TimeoutError`."""
        try:
            self.thread.run(work, self.control_timeout_s)
        except (OmniFailed, TimeoutError):
            self.require_alive()
            raise

    def require_alive(self) -> None:
        """After something failed. Raises `HostLost` where vLLM-Omni has died: it never comes back."""
        try:
            self.thread.run(self.omni.check(), self.control_timeout_s)
        except (OmniFailed, TimeoutError) as dead:
            raise HostLost(f"vLLM-Omni has died: {dead}") from dead


@dataclass(frozen=True, slots=True)
class OmniState:
    """What is kept of a world here, as of its last committed chunk."""

    chunks: int = 0
    camera: Camera = field(default_factory=Camera)
    decoder: History = ()


class OmniWorld:
    """Implements `engine.worker.host.HostWorld`. `closed` is called once, when everything was released."""

    def __init__(
        self, remote: Remote, world: str, opening: Opening, lens: Lens, closed: Callable[[], None]
    ) -> None:
        self._remote = remote
        self._world = world
        self._opening = opening
        self._lens = lens
        self._closed = closed
        self._state = OmniState()
        self._chunk: OmniBlock | None = None
        self._held = False  # vLLM-Omni may hold a session of ours
        self._astray = ""  # why the session there is not where this world is
        self._open = True

    @property
    def chunks(self) -> int:
        """Committed chunks since the epoch began."""
        return self._state.chunks

    def begin_chunk(self, tick: Tick) -> OmniBlock:
        """Stage the next chunk. Raises `UnknownWorld` where vLLM-Omni has gone on without us."""
        if self._astray:
            raise UnknownWorld(f"vLLM-Omni can't take a block back, and world {self._world} {self._astray}")
        frames = self._remote.frames_per_block
        given = tick.conditioning.get(TRACK, (IDLE_MOTION,) * frames)
        motions = cast(tuple[Mapping[str, Any], ...], given)
        path = follow(self._state.camera, motions, self._lens)
        control = control_of(motions, path, self._lens.width, self._lens.height)
        self._chunk = OmniBlock(self._remote, self._opening, tick, control, self._state, path.cameras[-1])
        return self._chunk

    def commit(self) -> None:
        """Keep the decoded chunk: vLLM-Omni has kept its block already."""
        assert self._chunk is not None, "there is no chunk in flight"
        self._state, self._chunk, self._held = self._chunk.after(), None, True

    def rollback(self) -> None:
        """Forget the chunk in flight; one whose tick was sent takes the session there with it."""
        chunk, self._chunk = self._chunk, None
        if chunk is None or not chunk.sent:
            return
        chunk.abandon()
        self._held, self._astray = True, f"lost chunk {chunk.index}, which was rolled back"
        try:
            self._release()
        except Exception:
            log.warning(
                "world %s is still held by vLLM-Omni; its close tries again", self._world, exc_info=True
            )

    def reset(self) -> None:
        """Back to the first frame."""
        self._chunk = None
        if self._held:
            self._remote.control(self._remote.omni.reset_session(self._world))
        self._held, self._astray, self._state = False, "", OmniState()

    def snapshot(self) -> NoReturn:
        """Raise: a copy would need the K/V there, which can't be had."""
        raise SnapshotRefused(
            "vLLM-Omni gives out no copy of a session; its worlds are made again from ticks"
        )

    def fork(self, request: OpenWorld) -> NoReturn:
        """Raise as `snapshot`; the server makes the fork from its history."""
        self.snapshot()

    def close(self) -> None:
        """Release the session there; idempotent. Raises where that failed or took too long."""
        self._chunk = None
        self._release()
        if self._open:
            self._open = False
            self._closed()

    def _release(self) -> None:
        if self._held:
            self._remote.control(self._remote.omni.close_session(self._world))
            self._held = False


class OmniBlock:
    """One chunk on its way. `sent` from the moment at which vLLM-Omni may have begun it."""

    def __init__(
        self,
        remote: Remote,
        opening: Opening,
        tick: Tick,
        control: Control,
        before: OmniState,
        camera: Camera,
    ) -> None:
        self.sent = False
        self._remote = remote
        self._opening = opening
        self._before = before
        self._camera = camera
        echo = Echo(tick.world, tick.request_id, tick.chunk_index, tick.event_ids)
        self._tick = OmniTick(echo, tick.prompt, control)
        self._work: Future[OmniChunk] | None = None
        self._decoder: History | None = None

    @property
    def index(self) -> int:
        """Which chunk it is."""
        return self._tick.echo.chunk_index

    def forwards(self) -> Iterator[None]:
        """Send the tick and wait, with a step every now and then. Raises `TimeoutError`, `HostLost`, and
        `OmniFailed`, also where the answer is of another chunk.
        """
        self.sent = True
        self._work = self._remote.thread.submit(self._remote.omni.run_tick(self._opening, self._tick))
        latest = time.monotonic() + self._remote.tick_timeout_s
        while not wait((self._work,), LOOK_UP_S).done:
            if time.monotonic() > latest:
                raise TimeoutError(f"vLLM-Omni gave no block within {self._remote.tick_timeout_s:g} s")
            yield
        try:
            self._require(self._work.result())
        except OmniFailed:
            self._remote.require_alive()
            raise

    @torch.inference_mode()
    def decode(self) -> NDArray[np.uint8]:
        """The block's frames, RGB [n, H, W, 3]. After the last forward."""
        assert self._work is not None, "decode follows the last forward"
        frames, self._decoder = self._remote.codec.decode(self._work.result().latents, self._before.decoder)
        return pixels_of(frames)

    def write(self) -> None:
        """vLLM-Omni has written its K/V already."""

    def after(self) -> OmniState:
        """The world's state once the chunk is kept."""
        assert self._decoder is not None, "a commit follows decode"
        return OmniState(self._before.chunks + 1, self._camera, self._decoder)

    def abandon(self) -> None:
        """Abort the tick, where it still runs."""
        if self._work is not None:
            self._work.cancel()

    def _require(self, chunk: OmniChunk) -> None:
        if chunk.echo != self._tick.echo:
            raise OmniFailed(f"vLLM-Omni answered for another chunk: {chunk.echo}, not {self._tick.echo}")
        height, width = self._opening.height // LATENT_STRIDE, self._opening.width // LATENT_STRIDE
        expected = (1, self._remote.codec.channels, self._remote.frames_per_block, height, width)
        if tuple(chunk.latents.shape) != expected:
            came = list(chunk.latents.shape)
            raise OmniFailed(f"vLLM-Omni answered latents {came}, expected {list(expected)}")
