"""A random model of the real classes, small enough for tests."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from engine.checkpoint.index import Card
from engine.codec.streaming import StreamingTinyCodec
from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.sampler.schedule import Schedule, shifted
from engine.text.words import WordTable
from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer
from engine.transformer.serving import serving
from engine.worker.host import HostChunk
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import World

torch.set_num_threads(1)

WIDTH, HEIGHT = 48, 32
FORWARD = ({"keys": ("w",)},) * 3
TURN = ({"keys": ("l",)},) * 3
STILL = ({"keys": ()},) * 3
WALK = (FORWARD, TURN, FORWARD, STILL, FORWARD)

CONFIG = TransformerConfig(
    num_attention_heads=2,
    attention_head_dim=16,
    ffn_dim=64,
    num_layers=2,
    text_dim=8,
    freq_dim=16,
    sink_size=3,
    sliding_window_num_frames=9,
)


def small_model(config: TransformerConfig = CONFIG, schedule: Schedule | None = None) -> Model:
    """The same weights every time."""
    torch.manual_seed(7)
    transformer = serving(WorldTransformer(config))
    codec = TinyCodec(
        TinyCodecConfig(width=8, middle=8, fine=8, latents_mean=(0.1,) * 16, latents_std=(0.8,) * 16)
    )
    for parameter in codec.parameters():
        parameter.data.normal_(0, 0.1)
    return Model(
        transformer=transformer,
        codec=StreamingTinyCodec(codec),
        text_encoder=WordTable.create(("meadow", "desert", "night"), config.text_dim),
        schedule=schedule or shifted((1000.0, 750.0, 500.0, 250.0), 5.0),
        card=Card("small", WIDTH, HEIGHT),
        revision="small",
    )


def picture(seed: int = 0, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A first frame of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def spec_of(world: str = "w", seed: int = 3) -> WorldSpec:
    """A world that begins in a meadow."""
    return WorldSpec(world, picture(seed), "a meadow", seed)


def finish(chunk: HostChunk) -> NDArray[np.uint8]:
    """Run the probes, decode, write the K/V."""
    for _ in chunk.forwards():
        pass
    frames = chunk.decode()
    chunk.write()
    return frames


def play(
    world: World, *blocks: tuple[dict[str, tuple[str, ...]], ...], prompt: str = "a meadow"
) -> list[bytes]:
    """Commit one chunk per block of motions; each chunk's pixels."""
    frames = []
    for motions in blocks:
        pixels = finish(world.begin_chunk(prompt, motions))
        world.commit()
        frames.append(pixels.tobytes())
    return frames
