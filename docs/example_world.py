"""Another world model behind Worldline: clouds in the wind. Nothing of sessions, attention or caches changes.

python -m docs.example_world     # then POST /v1/sessions, or open the page that it prints

The model is a toy with random weights, but a causal one: each block of latent frames attends to the blocks
before it through the paged K/V.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from attention.declaration import Computation, Declaration
from attention.layer import Attention
from engine.api import (
    CapacityReached,
    Control,
    ControlRefused,
    FrozenJson,
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

TRACK, SCHEMA = "wind", "example.wind.v1"
BLOCK, HEADS, HEAD_DIM = 3, 2, 16
DIM = HEADS * HEAD_DIM
WIDTH, HEIGHT, CELL, CAPACITY = 96, 64, 8, 8


# The reducer: what controls mean. Pure, without torch; it runs in the server and refuses bad payloads there.


class WindReducer:
    """`{"x": 1, "y": 0}`: cells per latent frame, until it changes."""

    track: str = TRACK
    schemas: tuple[str, ...] = (SCHEMA,)

    def initial(self) -> FrozenJson:
        """Calm."""
        return {"x": 0, "y": 0}

    def validate(self, control: Control) -> None:
        """Two whole numbers from -3 to 3."""
        data = control.data
        if not isinstance(data, Mapping) or set(data) != {"x", "y"}:
            raise ControlRefused("data", f"data: got {data!r}, expected an object with x and y")
        for name, value in data.items():
            if not isinstance(value, int) or isinstance(value, bool) or not -3 <= value <= 3:
                raise ControlRefused(f"data.{name}", f"data.{name}: got {value!r}, expected -3 to 3")

    def apply(self, state: FrozenJson, control: Control) -> FrozenJson:
        """The new wind."""
        self.validate(control)
        return control.data

    def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
        """The wind blows on; a block is told of it as it is."""
        return state, state

    def spent(self, state: FrozenJson) -> bool:
        """Never: it blows until another takes its place."""
        return False


# The model: a codec, a text encoder and a transformer, in whatever form suits them.


class CloudModel:
    """Latents are 8x8 means; one layer of attention over the block and what the K/V remember."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inward = torch.randn(3, DIM, generator=generator)
        self.q, self.k, self.v = torch.randn(3, DIM, DIM, generator=generator) / DIM**0.5
        self.outward = torch.randn(DIM, 3, generator=generator) / DIM
        self.attend = Attention(Declaration(Computation.SELF, "clouds.self", HEADS, HEADS, HEAD_DIM))

    def encode(self, image: NDArray[np.uint8]) -> Tensor:
        """RGB [H, W, 3] -> latent [3, h, w]."""
        return F.avg_pool2d(torch.from_numpy(image).permute(2, 0, 1).float() / 255, CELL)

    def decode(self, latents: Tensor, first: bool) -> NDArray[np.uint8]:
        """[F, 3, h, w] -> RGB frames: 1 of the very first latent frame, 4 of every other."""
        frames = latents.repeat_interleave(4, dim=0)[3 if first else 0 :]
        pixels = F.interpolate(frames, scale_factor=CELL).mul(255).round().to(torch.uint8)
        return pixels.permute(0, 2, 3, 1).contiguous().numpy()

    def text(self, prompt: str) -> Tensor:
        """[DIM], the same for the same prompt."""
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big") >> 1
        return torch.randn(DIM, generator=torch.Generator().manual_seed(seed))

    def forward(self, latents: Tensor, text: Tensor, slots: LayerSlots) -> Tensor:
        """[F, 3, h, w] -> the same, and their K/V into `slots`."""
        x = latents.permute(0, 2, 3, 1).reshape(1, -1, 3) @ self.inward + text  # [1, S, DIM]
        q, k, v = ((x @ weight).unflatten(-1, (HEADS, HEAD_DIM)) for weight in (self.q, self.k, self.v))
        mixed = self.attend(q, *slots.extend(k, v)).flatten(-2) @ self.outward
        frames, _, height, width = latents.shape
        change = mixed.reshape(frames, height, width, 3).permute(0, 3, 1, 2)
        return (latents + 0.1 * change.tanh()).clamp(0, 1)


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
