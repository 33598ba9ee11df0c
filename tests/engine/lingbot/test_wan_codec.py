from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.engine.lingbot.published_layout import small_vae

from engine.codec.wan import WanCodec, wan_codec  # isort: skip (after the check for the extra)

torch.set_num_threads(1)
HEIGHT, WIDTH = 32, 48


@pytest.fixture(scope="module")
def codec() -> WanCodec:
    return wan_codec(small_vae())


def pixels(frames: int, seed: int = 0) -> Tensor:
    return torch.rand(1, frames, 3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def latents(frames: int) -> Tensor:
    size = (1, 16, frames, HEIGHT // 8, WIDTH // 8)
    return torch.randn(size, generator=torch.Generator().manual_seed(1))


def statistics(vae: torch.nn.Module) -> tuple[Tensor, Tensor]:
    mean, std = (torch.tensor(vae.config[name]) for name in ("latents_mean", "latents_std"))
    return mean[:, None, None, None], std[:, None, None, None]


def test_encoding_is_that_of_diffusers_normalised(codec: WanCodec) -> None:
    vae = small_vae()
    mean, std = statistics(vae)
    with torch.inference_mode():
        expected = (vae.encode(pixels(13).transpose(1, 2)).latent_dist.mode() - mean) / std
    torch.testing.assert_close(codec.encode(pixels(13))[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_res_blocks", [1, 2])
def test_decoding_is_that_of_diffusers(num_res_blocks: int) -> None:
    vae = small_vae(num_res_blocks=num_res_blocks)
    mean, std = statistics(vae)
    with torch.inference_mode():
        expected = vae.decode(latents(4) * std + mean).sample.transpose(1, 2)
    ours, _ = wan_codec(vae).decode(latents(4))
    torch.testing.assert_close(ours.clamp(-1, 1), expected, atol=1e-5, rtol=0)


def test_decoding_block_by_block_is_bitwise_decoding_at_once(codec: WanCodec) -> None:
    whole, _ = codec.decode(latents(9))
    first, history = codec.decode(latents(9)[:, :, :3])
    second, history = codec.decode(latents(9)[:, :, 3:6], history)
    third, _ = codec.decode(latents(9)[:, :, 6:], history)
    assert [part.shape[1] for part in (first, second, third)] == [9, 12, 12]
    assert torch.equal(torch.cat([first, second, third], dim=1), whole)


def test_encoding_block_by_block_is_bitwise_encoding_at_once(codec: WanCodec) -> None:
    whole, _ = codec.encode(pixels(21))
    first, history = codec.encode(pixels(21)[:, :9])
    second, _ = codec.encode(pixels(21)[:, 9:], history)
    assert torch.equal(torch.cat([first, second], dim=2), whole)


def test_a_history_can_be_gone_on_from_twice(codec: WanCodec) -> None:
    _, history = codec.decode(latents(3))
    once, _ = codec.decode(latents(3), history)
    assert torch.equal(codec.decode(latents(3), history)[0], once)


def test_the_encoder_forgets_the_picture_after_exactly_the_flush_frames(codec: WanCodec) -> None:
    blank = torch.zeros(1, 4 * (codec.flush_frames + 2), 3, HEIGHT, WIDTH)
    one, other = (codec.encode(torch.cat([pixels(1, seed), blank], dim=1))[0] for seed in (0, 7))
    flushed = 1 + codec.flush_frames  # latent frame 0 is the picture
    assert torch.equal(one[:, :, flushed:], other[:, :, flushed:])
    assert not torch.equal(one[:, :, flushed - 1], other[:, :, flushed - 1])
    assert torch.equal(one[:, :, flushed], one[:, :, flushed + 1]), "and is constant from then on"


def test_the_published_depth_flushes_after_28_frames() -> None:
    assert wan_codec(small_vae(num_res_blocks=2)).flush_frames == 28


def test_histories_weigh_what_is_planned_for_them(codec: WanCodec) -> None:
    _, encoder = codec.encode(pixels(5))
    _, decoder = codec.decode(latents(2))
    weight = sum(tensor.nbytes for tensor in (*encoder, *decoder))
    assert codec.history_bytes(WIDTH, HEIGHT) == weight
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in (*encoder, *decoder))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"is_residual": True}, "is_residual"),
        ({"temperal_downsample": [True, True, False]}, "temperal_downsample"),
        ({"latents_mean": [0.0] * 15}, "latents_mean"),
        ({"latents_std": [1.0] * 17}, "latents_std"),
    ],
)
def test_another_generation_of_the_autoencoder_is_refused_by_field(
    config: dict[str, object], field: str
) -> None:
    with pytest.raises(ValueError, match=field):
        wan_codec(small_vae(**config))
