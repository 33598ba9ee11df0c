"""The published layout on a CUDA device in bf16, beside the CPU in fp32."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from engine.checkpoint.load import load_model
from engine.world.model import Model
from kvcache.capacity import required_bytes
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
    assert (ours.cpu() - expected).abs().mean() < 0.05 * expected.std()  # bf16 on a CPU: 0.023 to 0.028
    assert sum(tensor.nbytes for tensor in history) < model.codec.history_bytes(WIDTH, HEIGHT)


def test_the_text_is_encoded_as_on_the_cpu(model: Model, published: Path) -> None:
    expected = load_model(published).text_encoder.encode("a meadow")
    assert (model.text_encoder.encode("a meadow") - expected).abs().max() < 0.1


def requested() -> int:
    """Bytes asked of the device's allocator and not freed; those it gave are more, rounded up."""
    gc.collect()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_stats().get("requested_bytes.all.current", 0))


def test_a_world_s_memory_is_what_is_planned_for_it(model: Model) -> None:
    warm = opened(model)  # what all worlds share: times, the libraries' workspaces
    for _ in range(2):
        play(warm)
    warm.close()
    del warm
    before = requested()
    world = opened(model)
    picture = HEIGHT * WIDTH * 3 * 4
    most = before + picture + required_bytes(model.geometry(WIDTH, HEIGHT), 1)
    assert requested() <= most
    for _ in range(model.codec.flush_frames // 3 + 3):
        play(world)
        assert requested() <= most
    world.close()
    del world
    assert requested() <= before
