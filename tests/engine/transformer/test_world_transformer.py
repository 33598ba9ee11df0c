from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from engine.camera.session_rays import SessionRays
from engine.transformer.config import TransformerConfig
from engine.transformer.model import BlockInputs, WorldTransformer
from engine.transformer.patches import patchify, unpatchify
from engine.transformer.serving import ServingTransformer, serving

torch.set_num_threads(1)
CONFIG = TransformerConfig(
    num_attention_heads=4,
    attention_head_dim=16,
    ffn_dim=96,
    num_layers=3,
    text_dim=24,
    freq_dim=32,
    sink_size=3,
    sliding_window_num_frames=9,
)
ROWS, COLUMNS = 2, 3


class Concatenated:
    """The plainest cache: what came, put before what comes."""

    def __init__(self) -> None:
        self.kept: tuple[Tensor, Tensor] | None = None
        self.last: tuple[Tensor, Tensor] | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.last = (keys.clone(), values.clone())
        if self.kept is None:
            return keys, values
        return torch.cat([self.kept[0], keys], dim=1), torch.cat([self.kept[1], values], dim=1)

    def commit(self) -> None:
        assert self.last is not None
        self.kept = self.extend(*self.last)


@pytest.fixture(scope="module")
def model() -> WorldTransformer:
    torch.manual_seed(0)
    return WorldTransformer(CONFIG).requires_grad_(False).eval()


def draw(batch: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, 3, 2 * ROWS, 2 * COLUMNS)

    def randn(channels: int) -> Tensor:
        return torch.randn(shape[0], channels, *shape[1:], generator=generator)

    return {
        "latent": randn(16),
        "condition": randn(20),
        "rays": randn(384),
        "text": torch.randn(batch, 5, CONFIG.text_dim, generator=generator),
    }


def block_of(
    model: WorldTransformer | ServingTransformer, inputs: dict[str, Tensor], first: int = 0
) -> BlockInputs:
    return model.block(inputs["condition"], inputs["rays"], torch.arange(first, first + 3))


def test_patchify_and_a_linear_layer_are_the_conv3d_of_the_checkpoint() -> None:
    torch.manual_seed(1)
    conv = torch.nn.Conv3d(5, 7, (1, 2, 2), stride=(1, 2, 2))
    grid = torch.randn(2, 5, 3, 4, 6)
    expected = conv(grid).flatten(2).transpose(1, 2)
    came = F.linear(patchify(grid, (1, 2, 2)), conv.weight.flatten(1), conv.bias)
    assert torch.allclose(came, expected, atol=1e-6)


def test_unpatchify_puts_each_patch_where_it_was() -> None:
    grid = torch.randn(2, 5, 3, 4, 6)
    split = grid.reshape(2, 5, 3, 1, 2, 2, 3, 2)
    tokens = split.permute(0, 2, 4, 6, 3, 5, 7, 1).reshape(2, 18, -1)  # features (pt, ph, pw, C)
    assert torch.equal(unpatchify(tokens, (3, 2, 3), (1, 2, 2)), grid)


def test_a_batch_gives_what_its_rows_give_alone(model: WorldTransformer) -> None:
    inputs = draw(2)
    time = model.time(torch.tensor(700.0))
    both = model(inputs["latent"], time, block_of(model, inputs), model.text(inputs["text"]))
    for row in range(2):
        alone = {name: tensor[row : row + 1] for name, tensor in inputs.items()}
        one = model(alone["latent"], time, block_of(model, alone), model.text(alone["text"]))
        assert torch.allclose(both[row : row + 1], one, atol=2e-5)


def test_one_time_for_all_is_the_same_time_for_each_frame(model: WorldTransformer) -> None:
    inputs = draw(1)
    block, text = block_of(model, inputs), model.text(inputs["text"])
    uniform = model(inputs["latent"], model.time(torch.tensor(625.0)), block, text)
    times = model.time(torch.full((1, 3), 625.0), ROWS * COLUMNS)
    assert torch.allclose(model(inputs["latent"], times, block, text), uniform, atol=2e-5)


def test_the_time_of_a_frame_reaches_its_tokens(model: WorldTransformer) -> None:
    inputs = draw(1)
    block, text = block_of(model, inputs), model.text(inputs["text"])
    early = model(inputs["latent"], model.time(torch.tensor([[0.0, 500.0, 500.0]]), 6), block, text)
    late = model(inputs["latent"], model.time(torch.tensor([[900.0, 500.0, 500.0]]), 6), block, text)
    moved = (early - late).abs().amax(dim=(0, 1, 3, 4))
    assert moved[0] > 5 * moved[1:].max()


@pytest.mark.parametrize("first", [0, 4096])
def test_the_serving_form_gives_what_the_module_gives(model: WorldTransformer, first: int) -> None:
    fast = serving(model)
    assert isinstance(fast, ServingTransformer)
    slow_caches, fast_caches = ([Concatenated() for _ in range(3)] for _ in range(2))
    for number in range(3):
        inputs = draw(1, seed=number)
        text = model.text(inputs["text"])
        slow_block, fast_block = (block_of(one, inputs, first + 3 * number) for one in (model, fast))
        for timestep in (1000.0, 250.0):
            time = model.time(torch.tensor(timestep, dtype=torch.float64))
            slow = model(inputs["latent"], time, slow_block, text, slow_caches)
            quick = fast.forward(inputs["latent"], time, fast_block, text, fast_caches)
            assert torch.allclose(quick, slow, atol=1e-5)
        clean = model.time(torch.tensor(0.0))
        model.write(inputs["latent"], clean, slow_block, text, slow_caches)
        fast.write(inputs["latent"], clean, fast_block, text, fast_caches)
        for slow_cache, fast_cache in zip(slow_caches, fast_caches, strict=True):
            slow_cache.commit()
            fast_cache.commit()


def test_writing_leaves_what_a_forward_leaves(model: WorldTransformer) -> None:
    inputs = draw(1)
    block, text, time = block_of(model, inputs), model.text(inputs["text"]), model.time(torch.tensor(0.0))
    forward, written = ([Concatenated() for _ in range(3)] for _ in range(2))
    model(inputs["latent"], time, block, text, forward)
    model.write(inputs["latent"], time, block, text, written)
    for a, b in zip(forward, written, strict=True):
        assert a.last is not None
        assert b.last is not None
        assert torch.equal(a.last[0], b.last[0])
        assert torch.equal(a.last[1], b.last[1])


def test_history_camera_and_text_all_matter(model: WorldTransformer) -> None:
    inputs, other = draw(1), draw(1, seed=9)
    time = model.time(torch.tensor(500.0))
    caches = [Concatenated() for _ in range(3)]
    model.write(other["latent"], time, block_of(model, other), model.text(other["text"]), caches)
    for cache in caches:
        cache.commit()
    text = model.text(inputs["text"])
    base = model(inputs["latent"], time, block_of(model, inputs, 3), text)
    changed = [
        model(inputs["latent"], time, block_of(model, inputs, 3), text, caches),
        model(inputs["latent"], time, block_of(model, {**inputs, "rays": other["rays"]}, 3), text),
        model(inputs["latent"], time, block_of(model, inputs, 3), model.text(other["text"])),
        model(inputs["latent"], time, block_of(model, {**inputs, "condition": other["condition"]}, 3), text),
    ]
    for one in changed:
        assert (one - base).abs().max() > 1e-3


def test_half_precision_is_served_by_the_module_and_stays_near(model: WorldTransformer) -> None:
    torch.manual_seed(0)
    half = WorldTransformer(CONFIG).to(torch.bfloat16)
    assert serving(half) is half
    inputs = draw(1)
    time = model.time(torch.tensor(500.0))
    full = model(inputs["latent"], time, block_of(model, inputs), model.text(inputs["text"]))
    low = {name: tensor.bfloat16() for name, tensor in inputs.items()}
    came = half(low["latent"], half.time(torch.tensor(500.0)), block_of(half, low), half.text(low["text"]))
    assert came.dtype is torch.bfloat16
    assert (came.float() - full).abs().max() < 0.1 * full.abs().max()


def test_session_features_enter_the_camera_embedding() -> None:
    rays = SessionRays(harmonics=1.0, distances=(0.0,), azimuths=1)
    config = TransformerConfig(
        num_attention_heads=2,
        attention_head_dim=16,
        ffn_dim=32,
        num_layers=1,
        text_dim=8,
        freq_dim=16,
        sink_size=3,
        sliding_window_num_frames=6,
        camera_inputs=("framewise", "session"),
        session_rays=rays,
    )
    torch.manual_seed(0)
    model = WorldTransformer(config).requires_grad_(False)
    assert model.patch_embedding_session.weight.shape == (32, rays.channels)
    camera = torch.randn(1, 384, 3, 2 * ROWS, 2 * COLUMNS)
    session = torch.randn(1, rays.channels, 3, ROWS, COLUMNS)
    still = model.embed_camera(camera, session)
    session[:, :, 1] += 1
    moved = (model.embed_camera(camera, session) - still).abs().amax(dim=2)[0].unflatten(0, (3, -1))
    assert moved[1].min() > 0
    assert moved[0].max() == moved[2].max() == 0


def test_on_another_device_than_a_cpu_the_module_itself_is_served() -> None:
    with torch.device("meta"):
        elsewhere = WorldTransformer(CONFIG)
    assert serving(elsewhere) is elsewhere
