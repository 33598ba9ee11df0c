"""Loads a checkpoint and opens worlds of it, as many as memory has room for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from engine.api import CapacityReached, ModelCard, OpenWorld, WorldLedger, WorldRefused
from engine.checkpoint.fit import require_fit
from engine.checkpoint.index import CheckpointRefused
from engine.checkpoint.load import load_model
from engine.checkpoint.scenes import SceneFile, read_scenes
from engine.checkpoint.source import locate
from engine.native.card import model_card
from engine.native.memory import available_bytes
from engine.native.scenes import first_frame
from engine.native.world import NativeWorld
from engine.numerics import Numerics
from engine.sampler.schedule import ScheduleRefused
from engine.worker.messages import Usage
from engine.world.caches import Caches, make_caches
from engine.world.model import Model
from engine.world.sharing import FirstChunks, SharingWorld, open_first_chunks
from engine.world.snapshot import fork, restore
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world
from kvcache.capacity import CapacityPlan, required_bytes
from kvcache.capacity import plan as plan_capacity
from kvcache.errors import CapacityError, OutOfMemory, OutOfPages
from kvcache.facts import told
from kvcache.geometry import Geometry
from kvcache.memory import Memory

CHECKPOINTS: Final = Path(__file__).parents[2] / "checkpoints"
MEMORY_FRACTION: Final = 0.8
MAX_WORLDS: Final = 64


def make_host(
    model: str = "tiny",
    threads: int | None = None,
    device: str | None = None,
    max_worlds: int = MAX_WORLDS,
    memory_fraction: float = MEMORY_FRACTION,
    share_bytes: int = 0,
    compiled: bool = False,
    tf32: bool = False,
) -> NativeHost:
    """The factory that a `Boot` names. `model` is a checkpoint folder, the name of one that ships with us, or
    one on the hub (`OWNER/NAME@COMMIT`).

    `threads` leaves one core to the server and the encoder, by default, and `device` is a GPU where there is
    one. `share_bytes` is the room for first chunks that worlds of the same inputs share; 0 shares none.
    `compiled` and `tf32` are those of `engine.numerics`.
    Loading happens later, in `NativeHost.load`.
    """
    torch.set_num_threads(threads or default_threads(os.cpu_count() or 1))
    folder = CHECKPOINTS / model if (CHECKPOINTS / model).is_dir() else Path(model)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    numerics = Numerics(tf32, compiled)
    return NativeHost(folder, place, max_worlds, memory_fraction, share_bytes, numerics)


def default_threads(cores: int) -> int:
    """All but one, up to four: small matrices gain nothing from more, and threads that wait for each other on
    busy cores were measured ten times slower than one.
    """
    return max(1, min(4, cores - 1))


class NativeHost:
    """One checkpoint on one device. Implements `engine.worker.host.Host`."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        max_worlds: int,
        memory_fraction: float,
        share_bytes: int = 0,
        numerics: Numerics | None = None,
    ) -> None:
        self._folder = folder
        self._device = device
        self._max_worlds = max_worlds
        self._memory_fraction = memory_fraction
        self._share_bytes = share_bytes
        self._numerics = numerics
        self._scenes: dict[str, SceneFile] = {}
        self._model: Model | None = None
        self._caches: Caches | None = None
        self._first_chunks: FirstChunks | None = None
        self._capacity = 0
        self._view_pages = 0

    def load(self) -> ModelCard:
        """Raises `CheckpointRefused` with the file and the reason, or where memory is short."""
        if self._first_chunks is not None:
            self._first_chunks.clear("the model is loaded anew")
        folder = locate(self._folder)
        require_fit(folder, self._dtype(), max(0, self.available() - self._share_bytes))
        self._model = load_model(folder, self._dtype(), self._device, numerics=self._numerics)
        self._scenes = {scene.scene.name: scene for scene in read_scenes(folder)}
        try:
            plan = self._plan(self._model)
        except CapacityError as short:
            raise CheckpointRefused(f"{folder}: {short}") from short
        self._capacity = plan.effective
        self._view_pages = self._model.geometry(*self._size(self._model)).view_pages
        self._caches = caches = self.make_caches(plan)
        if self._share_bytes:
            self._first_chunks = open_first_chunks(caches.ledger, caches.memory, self._share_bytes)
        return self._card(self._model)

    @property
    def revision(self) -> str:
        """A digest of everything in the checkpoint that decides what it generates."""
        assert self._model is not None, "load comes first"
        return self._model.revision

    def open(self, request: OpenWorld) -> NativeWorld:
        """Make a world. Raises `WorldRefused` or `CapacityReached`."""
        return self._native(self._open(request), request)

    def restore(self, request: OpenWorld, snapshot: bytes) -> NativeWorld:
        """Make a world from a snapshot. Raises `SnapshotRefused` too; then there is no world."""
        return self._become(request, lambda world: restore(world, snapshot))

    def fork(self, source: World, request: OpenWorld) -> NativeWorld:
        """Make a world from one that is open. Raises as `restore`."""
        return self._become(request, lambda world: fork(source, world))

    def _become(self, request: OpenWorld, become: Callable[[World], None]) -> NativeWorld:
        """A world that continues another one."""
        world = self._open(request)
        try:
            become(world)
        except BaseException as error:
            world.close()
            if isinstance(error, OutOfPages | torch.OutOfMemoryError):
                raise CapacityReached(f"no memory is left for another world: {error}") from error
            raise
        return self._native(world, request)

    def _native(self, world: World, request: OpenWorld) -> NativeWorld:
        return NativeWorld(self._sharing(world, request), world, self.fork)

    def _open(self, request: OpenWorld) -> World:
        assert self._model is not None and self._caches is not None, "load comes first"
        if len(self._caches) >= self._capacity:
            raise CapacityReached(f"all {self._capacity} worlds are taken")
        self._require_size(request)
        first = first_frame(request, self._scenes)
        spec = WorldSpec(
            request.world, first.image, request.prompt, request.seed, first.origin, request.flow_shift
        )
        self._require_room(self._model.geometry(request.width, request.height))
        try:
            return open_world(self._model, spec, self._caches)
        except ScheduleRefused as refused:
            raise WorldRefused(refused.field, str(refused)) from None
        except (OutOfMemory, OutOfPages, MemoryError, torch.OutOfMemoryError) as error:
            raise CapacityReached(f"no memory is left for another world: {error}") from error

    def make_caches(self, plan: CapacityPlan) -> Caches:
        """The device's caches; a test may give them less memory."""
        return make_caches(Memory(self._device), plan)

    def available(self) -> int:
        """Free bytes of the device."""
        return available_bytes(self._device)

    def usage(self) -> Usage:
        """In pages of the model's own picture size: every world holds its whole view."""
        worlds = len(self._caches) if self._caches is not None else 0
        return Usage(worlds * self._view_pages, self._capacity * self._view_pages)

    def ledger(self, world: str) -> WorldLedger:
        """What the caches of a world hold or held; no facts where it is unknown."""
        assert self._caches is not None, "load comes first"
        ledger = self._caches.ledger
        owner = ledger.live.owners.get(world)
        return WorldLedger(
            world=world,
            facts=tuple(told(fact) for fact in ledger.facts(world)),
            live_bytes=owner.live_bytes if owner is not None else 0,
            balanced=self._caches.is_balanced(),
        )

    def _sharing(self, world: World, request: OpenWorld) -> World | SharingWorld:
        if self._first_chunks is None or self._caches is None:
            return world
        return SharingWorld(world, self._first_chunks, self._caches.memory, request.fps, request.media)

    def _require_size(self, request: OpenWorld) -> None:
        assert self._model is not None
        most, size = self._model.card.max_pixels, f"{request.width}x{request.height}"
        if request.width * request.height > most:
            raise WorldRefused("width", f"width, height: got {size}, expected at most {most} pixels")

    def _require_room(self, geometry: Geometry) -> None:
        """The plan counts worlds of the model's own size; a larger picture must find its memory, too."""
        needed, left = required_bytes(geometry, 1), self.available()
        if needed > left:
            raise CapacityReached(f"a world of this size takes {needed} bytes, {left} are left")

    def _dtype(self) -> torch.dtype:
        """Half precision is slow on a CPU, and natural on a GPU."""
        return torch.float32 if self._device.type == "cpu" else torch.bfloat16

    def _plan(self, model: Model) -> CapacityPlan:
        left = self.available() - self._share_bytes
        return plan_capacity(
            model.geometry(*self._size(model)), left, self._memory_fraction, self._max_worlds
        )

    def _size(self, model: Model) -> tuple[int, int]:
        return model.card.width, model.card.height

    def _card(self, model: Model) -> ModelCard:
        frames = model.transformer.config.num_frames_per_block
        return model_card(model.card, model.schedule, frames, self._scenes.values(), self._capacity)
