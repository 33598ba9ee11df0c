"""LingBot World on vLLM-Omni: what `worldline serve --engine vllm-omni` runs in its worker process.

Transformer, text encoder and K/V are vLLM-Omni's. Scenes, the camera and the autoencoder's decoder are ours:
its tick path answers latents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from engine.api import CapacityReached, ModelCard, OpenWorld, SnapshotRefused, WorldLedger, WorldRefused
from engine.camera.intrinsics import default_at_size
from engine.camera.motion import Lens
from engine.checkpoint.index import Card, read_index
from engine.checkpoint.load import load_codec, load_schedule
from engine.checkpoint.scenes import SceneFile, read_scenes
from engine.checkpoint.source import locate
from engine.checkpoint.weights import read_config
from engine.native.card import model_card
from engine.native.scenes import first_frame
from engine.omni.deployment import Deployment
from engine.omni.loop_thread import LoopThread
from engine.omni.service import Omni, Opening
from engine.omni.world import OmniWorld, Remote
from engine.sampler.schedule import Schedule, ScheduleRefused
from engine.worker.messages import Usage

TICK_TIMEOUT_S: Final = 120.0
CONTROL_TIMEOUT_S: Final = 24.0
PATIENCE_S: Final = 2.0  # behind vLLM-Omni's own limit, so that its word comes first

Connect = Callable[[Deployment, float], Omni]
"""Starts vLLM-Omni, whose resets and closes may take so many seconds; called on its loop's thread."""


def make_host(
    model: str, worlds: int = 1, deploy: str | None = None, control_timeout_s: float = CONTROL_TIMEOUT_S
) -> OmniHost:
    """The factory that a `Boot` names. `model` is a checkpoint folder, or a hub's `OWNER/NAME@COMMIT`.

    `worlds` is how many sessions vLLM-Omni is trusted to hold: it evicts in silence beyond its own limit.
    `deploy` is a file that takes the place of the deployment that is written here.
    """
    from engine.omni.installed import connect

    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return OmniHost(Path(model), place, worlds, deploy, control_timeout_s, connect)


class OmniHost:
    """One deployment. Implements `engine.worker.host.Host`."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        worlds: int,
        deploy: str | None,
        control_timeout_s: float,
        connect: Connect,
    ) -> None:
        self._folder = folder
        self._device = device
        self._worlds = worlds
        self._deploy = deploy
        self._control_timeout_s = control_timeout_s
        self._connect = connect
        self._open = 0
        self._scenes: dict[str, SceneFile] = {}
        self._card: Card | None = None
        self._schedule: Schedule | None = None
        self._remote: Remote | None = None

    def load(self) -> ModelCard:
        """Raises `CheckpointRefused` with the file and the reason, and what starting vLLM-Omni raises."""
        folder = locate(self._folder)
        card = self._card = read_index(folder).card
        schedule = self._schedule = load_schedule(folder)
        frames = read_config(folder / "transformer").num_frames_per_block
        self._scenes = {scene.scene.name: scene for scene in read_scenes(folder)}
        dtype = torch.float32 if self._device.type == "cpu" else torch.bfloat16
        codec = load_codec(folder, dtype, self._device)
        shift = schedule.flow_shift
        deployment = Deployment(folder, card.width, card.height, len(schedule.steps), shift, self._deploy)
        thread = LoopThread()
        try:
            omni = thread.run(_start(self._connect, deployment, self._control_timeout_s))
        except BaseException:
            thread.stop()
            raise
        patience = self._control_timeout_s + PATIENCE_S
        self._remote = Remote(omni, thread, codec, frames, TICK_TIMEOUT_S, patience)
        card = replace(card, max_pixels=card.width * card.height)  # no other size than its own
        return model_card(card, schedule, frames, self._scenes.values(), self._worlds)

    def stop(self) -> None:
        """End vLLM-Omni and the thread that talks to it; idempotent."""
        if self._remote is not None:
            self._remote.omni.stop()
            self._remote.thread.stop()

    def open(self, request: OpenWorld) -> OmniWorld:
        """Make a world. Raises `WorldRefused` or `CapacityReached`. Its session there begins with a tick."""
        assert self._remote is not None and self._card is not None, "load comes first"
        if self._open >= self._worlds:
            raise CapacityReached(f"all {self._worlds} worlds are taken")
        self._require_size(request, self._card)
        opening = Opening(
            first_frame(request, self._scenes).image, request.seed, self._shift(request), len(self._steps())
        )
        intrinsics = default_at_size(self._card.intrinsics, request.width, request.height)
        lens = Lens(request.width, request.height, intrinsics)
        self._open += 1
        return OmniWorld(self._remote, request.world, opening, lens, self._closed)

    def restore(self, request: OpenWorld, snapshot: bytes) -> OmniWorld:
        """Raise: there are no snapshots of these worlds."""
        raise SnapshotRefused("a world of vLLM-Omni is made from its ticks, not from a snapshot")

    def usage(self) -> Usage:
        """In worlds: vLLM-Omni's pages are its own."""
        return Usage(self._open, self._worlds)

    def ledger(self, world: str) -> WorldLedger:
        """What its caches hold is known to vLLM-Omni alone."""
        return WorldLedger(world, (), 0, balanced=True)

    def _closed(self) -> None:
        self._open -= 1

    def _steps(self) -> tuple[object, ...]:
        assert self._schedule is not None
        return self._schedule.steps

    def _shift(self, request: OpenWorld) -> float | None:
        assert self._schedule is not None
        if request.flow_shift is None:
            return self._schedule.flow_shift
        try:
            return self._schedule.shifted(request.flow_shift).flow_shift
        except ScheduleRefused as refused:
            raise WorldRefused(refused.field, str(refused)) from None

    def _require_size(self, request: OpenWorld, card: Card) -> None:
        for name, came, only in (
            ("width", request.width, card.width),
            ("height", request.height, card.height),
        ):
            if came != only:
                fixed = "vLLM-Omni fixes the picture size when it starts"
                raise WorldRefused(name, f"{name}: got {came}, expected {only}: {fixed}")


async def _start(connect: Connect, deployment: Deployment, timeout_s: float) -> Omni:
    """On the loop's thread, so that whatever vLLM-Omni makes belongs to it."""
    omni = connect(deployment, timeout_s)
    try:
        await omni.check()
    except BaseException:
        omni.stop()
        raise
    return omni
