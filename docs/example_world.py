"""Another world model behind Worldline: clouds in the wind. Nothing of sessions, attention or caches changes.

python -m docs.example_world     # then POST /v1/sessions, or open the page that it prints

The model (`example_model.py`) is a toy with random weights, but a causal one: each block of latent frames
attends to the blocks before it through the paged K/V. `example_controls.py` says what its controls mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from docs.example_controls import SCHEMA, TRACK, WindReducer
from docs.example_model import BLOCK, CELL, HEAD_DIM, HEADS, CloudModel
from engine.api import (
    CapacityReached,
    ModelCard,
    OpenWorld,
    Scene,
    SnapshotRefused,
    Tick,
    WorldLedger,
)
from engine.media.image import decode_image
from engine.worker.messages import Usage
from engine.world.caches import Caches, LayerSlots, make_caches, open_caches
from kvcache.errors import OutOfMemory, RestoreRefused
from kvcache.facts import told
from kvcache.geometry import Geometry
from kvcache.view import ViewState

WIDTH, HEIGHT, CAPACITY = 96, 64, 8


# The world: one session's state. A chunk commits whole or leaves no trace.


class CloudWorld:
    """Implements `engine.worker.host.HostWorld`."""

    def __init__(self, host: CloudHost, request: OpenWorld) -> None:
        geometry = Geometry(
            layers=1,
            kv_heads=HEADS,
            head_dim=HEAD_DIM,
            dtype="float32",
            tokens_per_frame=(request.width // CELL) * (request.height // CELL),
            sink_frames=3,
            window_frames=6,
            frames_per_block=BLOCK,
        )
        self.host = host
        self.caches = open_caches(request.world, geometry, host.caches)
        self.start = host.first_latent(request)
        self.latent = self.start
        self.chunks = 0
        self.staged: Tensor | None = None

    def begin_chunk(self, tick: Tick) -> CloudChunk:
        """Stage the next block."""
        wind: Any = tick.conditioning.get(TRACK, {"x": 0, "y": 0})
        blown = [self.latent.roll((n * wind["y"], n * wind["x"]), dims=(1, 2)) for n in range(1, BLOCK + 1)]
        return CloudChunk(self, torch.stack(blown), self.host.model.text(tick.prompt), self.caches.begin()[0])

    def commit(self) -> None:
        """The staged block is now the past."""
        assert self.staged is not None
        self.caches.view.commit()
        self.latent, self.staged = self.staged[-1], None
        self.chunks += 1

    def rollback(self) -> None:
        """Forget the staged block."""
        self.staged = None
        self.caches.view.rollback()

    def reset(self) -> None:
        """Back to the first frame."""
        self.staged, self.latent, self.chunks = None, self.start, 0
        self.caches.view.reset()

    def snapshot(self) -> Callable[[], bytes]:
        """Everything, as of the last commit."""
        view, latent, chunks = self.caches.view.state(), self.latent, self.chunks
        parts = {
            "latent": latent.contiguous(),
            "chunks": torch.tensor(chunks),
            "keys": view.keys[0].contiguous(),
            "values": view.values[0].contiguous(),
        }
        return lambda: save(parts)

    def become(self, snapshot: bytes) -> None:
        """What the snapshot was taken of. Raises `SnapshotRefused`."""
        try:
            parts = load(snapshot)
            chunks = int(parts["chunks"])
            state = ViewState(chunks * BLOCK, (parts["keys"],), (parts["values"],))
            self.caches.view.restore(state)
            self.latent, self.chunks = parts["latent"], chunks
        except (RestoreRefused, KeyError, ValueError, RuntimeError) as error:
            raise SnapshotRefused(f"no snapshot of clouds: {error}") from error

    def fork(self, request: OpenWorld) -> CloudWorld:
        """Another world that goes on from here."""
        return self.host.restore(request, self.snapshot()())

    def close(self) -> None:
        """Release the caches."""
        self.caches.close()


class CloudChunk:
    """Implements `engine.worker.host.HostChunk`."""

    def __init__(self, world: CloudWorld, latents: Tensor, text: Tensor, slots: LayerSlots) -> None:
        self.world, self.latents, self.text, self.slots = world, latents, text, slots

    @torch.inference_mode()
    def forwards(self) -> Iterator[None]:
        """One step; a sampler would yield between its steps, so that a cancel is noticed."""
        self.world.staged = self.world.host.model.forward(self.latents, self.text, self.slots)
        yield

    def decode(self) -> NDArray[np.uint8]:
        """9 frames of the first block, 12 of every other."""
        assert self.world.staged is not None
        return self.world.host.model.decode(self.world.staged, first=self.world.chunks == 0)

    def write(self) -> None:
        """Nothing: the one step wrote it already. A sampler of noisy blocks runs once more here."""


class CloudHost:
    """Implements `engine.worker.host.Host`."""

    def __init__(self) -> None:
        self.model = CloudModel()
        self.caches: Caches = make_caches()

    def load(self) -> ModelCard:
        """What clients are told of the model."""
        return ModelCard(
            name="clouds",
            width=WIDTH,
            height=HEIGHT,
            fps=16,
            size_multiple=2 * CELL,
            max_pixels=WIDTH * HEIGHT,
            first_chunk_frames=9,
            chunk_frames=12,
            frames_per_block=BLOCK,
            steps=1,
            capacity=CAPACITY,
            scenes=(Scene("sky", "Sky", "white clouds"),),
            control_schemas={TRACK: (SCHEMA,)},
        )

    def first_latent(self, request: OpenWorld) -> Tensor:
        """The client's picture, or noise of its seed. Raises `WorldRefused`."""
        if request.image is not None:
            return self.model.encode(decode_image(request.image, request.width, request.height))
        size = (3, request.height // CELL, request.width // CELL)
        return torch.rand(size, generator=torch.Generator().manual_seed(request.seed))

    def open(self, request: OpenWorld) -> CloudWorld:
        """Make a world. Raises `WorldRefused` or `CapacityReached`."""
        if len(self.caches) >= CAPACITY:
            raise CapacityReached(f"all {CAPACITY} worlds are taken")
        try:
            return CloudWorld(self, request)
        except OutOfMemory as error:
            raise CapacityReached(str(error)) from error

    def restore(self, request: OpenWorld, snapshot: bytes) -> CloudWorld:
        """Make a world from a snapshot. Raises `SnapshotRefused` too; then there is no world."""
        world = self.open(request)
        try:
            world.become(snapshot)
        except BaseException:
            world.close()
            raise
        return world

    def usage(self) -> Usage:
        """A page per world will do."""
        return Usage(len(self.caches), CAPACITY)

    def ledger(self, world: str) -> WorldLedger:
        """What the caches hold of a world, in their own words."""
        ledger = self.caches.ledger
        owner = ledger.live.owners.get(world)
        return WorldLedger(
            world=world,
            facts=tuple(told(fact) for fact in ledger.facts(world)),
            live_bytes=0 if owner is None else owner.live_bytes,
            balanced=self.caches.is_balanced(),
        )


def make_host() -> CloudHost:
    """The factory that a `Boot` names."""
    return CloudHost()


def main() -> None:
    """Serve it, its model in a worker process."""
    from app.main import create_app
    from app.serving import Server, address
    from app.settings import Settings
    from app.stores import Stores
    from engine.worker.messages import Boot
    from engine.worker.process import ProcessEngine
    from sessions.memory_journal import MemoryJournal

    settings = Settings()
    engine = ProcessEngine(Boot("docs.example_world:make_host"))
    app = create_app(settings, engine, Stores(MemoryJournal()), {TRACK: WindReducer()})
    server = Server(app, settings, app.state.edge.drain)

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        await app.state.edge.ready.wait()
        print(f"{address(server)}/")  # noqa: T201 (what the example says)
        await serving

    asyncio.run(serve())


if __name__ == "__main__":
    main()
