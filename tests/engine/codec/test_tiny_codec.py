from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.codec.image import ImageEncoder
from engine.codec.streaming import StreamingTinyCodec, load_tiny_codec, save_tiny_codec
from engine.codec.tiny import TinyCodec, TinyCodecConfig

torch.set_num_threads(1)
SMALL = TinyCodecConfig(4, 8, 8, 4, (0.1, 0.2, 0.3, 0.4), (1.0, 0.5, 2.0, 1.5))


@pytest.fixture(params=[0, 6], ids=["plain", "with edges"])
def codec(request: pytest.FixtureRequest) -> StreamingTinyCodec:
    torch.manual_seed(0)
    network = TinyCodec(replace(SMALL, edges=request.param))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return StreamingTinyCodec(network)


def video(frames: int) -> torch.Tensor:
    return torch.rand(1, frames, 3, 32, 48, generator=torch.Generator().manual_seed(1)) * 2 - 1


def test_a_video_encoded_in_pieces_gives_the_bytes_of_one_call(codec: StreamingTinyCodec) -> None:
    frames = video(21)
    whole, end = codec.encode(frames)
    first, history = codec.encode(frames[:, :9])
    second, history = codec.encode(frames[:, 9:13], history)
    third, history = codec.encode(frames[:, 13:], history)
    assert whole.shape == (1, 4, 6, 4, 6)
    assert torch.equal(whole, torch.cat([first, second, third], dim=2))
    assert all(torch.equal(a, b) for a, b in zip(end, history, strict=True))


def test_latents_decoded_block_by_block_give_the_bytes_of_one_call(codec: StreamingTinyCodec) -> None:
    latents = torch.randn(1, 4, 9, 4, 6, generator=torch.Generator().manual_seed(2))
    whole, _ = codec.decode(latents)
    history: tuple[torch.Tensor, ...] = ()
    pieces = []
    for block in latents.split(3, dim=2):
        frames, history = codec.decode(block, history)
        pieces.append(frames)
    assert [piece.shape[1] for piece in pieces] == [9, 12, 12]
    assert torch.equal(whole, torch.cat(pieces, dim=1))


def test_streaming_agrees_with_the_training_network(codec: StreamingTinyCodec) -> None:
    frames = video(13)
    latents = codec.network.encode_video(frames)
    expected = ((latents - codec.mean) / codec.std).transpose(1, 2)
    torch.testing.assert_close(codec.encode(frames)[0], expected, atol=1e-5, rtol=1e-5)
    decoded = codec.network.decode_video(latents)
    torch.testing.assert_close(codec.decode(expected)[0], decoded, atol=1e-4, rtol=1e-4)


def test_no_frame_sees_a_later_one(codec: StreamingTinyCodec) -> None:
    frames = video(13)
    changed = frames.clone()
    changed[:, 5:] = 0
    assert torch.equal(codec.encode(frames)[0][:, :, :2], codec.encode(changed)[0][:, :, :2])
    assert not torch.equal(codec.encode(frames)[0][:, :, 2], codec.encode(changed)[0][:, :, 2])


def test_a_history_is_never_changed_in_place(codec: StreamingTinyCodec) -> None:
    latents = torch.randn(1, 4, 3, 4, 6)
    _, history = codec.decode(latents)
    before = [feature.clone() for feature in history]
    codec.decode(latents, history)
    assert all(torch.equal(a, b) for a, b in zip(before, history, strict=True))


def test_history_bytes_are_what_histories_hold(codec: StreamingTinyCodec) -> None:
    frames = video(9)
    latents, encoder = codec.encode(frames)
    _, decoder = codec.decode(latents)
    held = sum(feature.numel() * feature.element_size() for feature in (*encoder, *decoder))
    assert codec.history_bytes(48, 32) == held


def test_the_image_latent_becomes_constant_and_needs_no_encoding(codec: StreamingTinyCodec) -> None:
    encoder = ImageEncoder(codec)
    picture = video(1)[0, 0]
    state = encoder.start(picture)
    blocks = []
    for _ in range(4):
        block, state = encoder.next(state)
        blocks.append(block)
    blank = torch.zeros(1, 44, 3, 32, 48)
    whole, _ = codec.encode(torch.cat([picture[None, None], blank], dim=1))
    assert torch.equal(torch.cat(blocks, dim=2), whole)
    assert blocks[3] is blocks[2]
    assert not torch.equal(blocks[0], blocks[1])


def test_a_saved_codec_loads_again(codec: StreamingTinyCodec, tmp_path: Path) -> None:
    save_tiny_codec(codec.network, tmp_path)
    again = load_tiny_codec(tmp_path)
    assert again.network.config == codec.network.config
    frames = video(9)
    torch.testing.assert_close(again.encode(frames)[0], codec.encode(frames)[0], atol=2e-2, rtol=2e-2)


def test_a_config_with_an_unknown_field_is_refused_by_name(codec: StreamingTinyCodec, tmp_path: Path) -> None:
    save_tiny_codec(codec.network, tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"width"', '"girth"'))
    with pytest.raises(ValueError, match="girth"):
        load_tiny_codec(tmp_path)
