"""The published layout on a CUDA device in bf16, beside the CPU in fp32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.checkpoint.load import load_model
from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import open_world
from kvcache.capacity import required_bytes
from kvcache.memory import Memory
from tests.engine.lingbot.published_layout import HEIGHT, WIDTH
from tests.engine.lingbot.published_world import opened, play

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture
def model(published: Path) -> Model:
    return load_model(published, torch.bfloat16, "cuda")


def test_a_world_plays_past_its_encoder_s_flush(model: Model) -> None:
    world = opened(model)
    blocks = model.codec.flush_frames // 3 + 3
    assert [len(play(world)) for _ in range(blocks)] == [9] + [12] * (blocks - 1)
    assert world.state.image.constant is not None
    world.close()


def test_the_autoencoder_decodes_as_on_the_cpu(model: Model, published: Path) -> None:
    latents = torch.randn(1, 16, 3, HEIGHT // 8, WIDTH // 8, generator=torch.Generator().manual_seed(0))
    expected, _ = load_model(published).codec.decode(latents)
    ours, history = model.codec.decode(latents.cuda())
    assert (ours.cpu() - expected).abs().max() < 0.05
    assert sum(tensor.nbytes for tensor in history) < model.codec.history_bytes(WIDTH, HEIGHT)


def test_the_text_is_encoded_as_on_the_cpu(model: Model, published: Path) -> None:
    expected = load_model(published).text_encoder.encode("a meadow")
    assert (model.text_encoder.encode("a meadow") - expected).abs().max() < 0.1


def test_an_open_world_s_caches_take_what_is_planned_for_them(model: Model) -> None:
    caches = make_caches(Memory(model.device))
    before = torch.cuda.memory_allocated()
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    world = open_world(model, WorldSpec("w", image, "a meadow", 5), caches)
    geometry = model.geometry(WIDTH, HEIGHT)
    picture = image.size * 4
    assert torch.cuda.memory_allocated() - before - picture <= required_bytes(geometry, 1)
    world.close()
    assert caches.memory.live_bytes == 0
