"""What a player may rely on in every chunk."""

from __future__ import annotations

import av
import numpy as np
import pytest
from av.video.frame import PictureType
from numpy.typing import NDArray

from engine.media.h264 import codec_string, encode_h264, nal_units

IDR, SLICE, SEI, SPS, PPS = 5, 1, 6, 7, 8


def walk(frames: int, width: int = 96, height: int = 64, start: int = 0) -> NDArray[np.uint8]:
    """A smooth picture that moves, RGB."""
    y, x = np.mgrid[0:height, 0:width]
    pictures = [
        np.stack([40 + x * 160 / width, 200 - y * 150 / height, 128 + 90 * np.sin((x + y) / 20 + t / 6)], -1)
        for t in range(start, start + frames)
    ]
    return np.stack(pictures).round().astype(np.uint8)


def decode(units: tuple[bytes, ...]) -> list[av.VideoFrame]:
    context = av.CodecContext.create("h264", "r")
    frames = [frame for unit in units for frame in context.decode(av.Packet(unit))]
    return frames + context.decode(None)


def kinds(unit: bytes) -> list[int]:
    return [nal[0] & 31 for nal in nal_units(unit)]


@pytest.mark.parametrize("count", [1, 9, 12])
def test_there_is_one_access_unit_per_frame_and_one_closed_group(count: int) -> None:
    units = encode_h264(walk(count), 16)
    assert [kinds(unit) for unit in units] == [[SPS, PPS, IDR]] + [[SLICE]] * (count - 1)
    frames = decode(units)
    assert len(frames) == count
    assert [PictureType(frame.pict_type).name for frame in frames] == ["I"] + ["P"] * (count - 1)


def test_a_scene_change_inside_a_chunk_brings_no_second_key_frame() -> None:
    frames = walk(12)
    frames[6:] = 255 - frames[6:]
    assert [kinds(unit)[-1] for unit in encode_h264(frames, 16)] == [IDR] + [SLICE] * 11


def test_every_frame_leaves_the_decoder_as_soon_as_it_went_in() -> None:
    context = av.CodecContext.create("h264", "r")
    context.thread_count = 1
    context.flags |= av.codec.context.Flags.low_delay
    shown = [len(context.decode(av.Packet(unit))) for unit in encode_h264(walk(12), 16)]
    assert shown == [1] * 12


def test_bytes_depend_on_the_frames_alone() -> None:
    first = encode_h264(walk(12), 16)
    encode_h264(walk(9, start=50), 16)
    assert encode_h264(walk(12), 16) == first


def test_the_profile_is_baseline_and_the_codec_string_says_so() -> None:
    units = encode_h264(walk(9), 16)
    assert codec_string(units[0]) == "avc1.42c00a"
    assert codec_string(encode_h264(walk(2, 832, 480), 16)[0]) == "avc1.42c01e"


def test_the_stream_declares_how_its_colours_are_coded() -> None:
    frame = decode(encode_h264(walk(1), 16))[0]
    assert (frame.format.name, frame.width, frame.height) == ("yuv420p", 96, 64)
    assert (frame.colorspace, frame.color_range) == (1, 1)  # BT.709, limited


@pytest.mark.parametrize(
    "colour", [(255, 255, 255), (0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255), (128, 128, 128)]
)
def test_colours_come_back(colour: tuple[int, int, int]) -> None:
    frames = np.broadcast_to(np.array(colour, np.uint8), (9, 64, 96, 3))
    shown = decode(encode_h264(frames, 16))[-1].to_ndarray(format="rgb24")
    assert np.abs(shown.astype(int) - colour).max() <= 4


def test_a_small_picture_looks_good() -> None:
    frames = walk(12)
    shown = np.stack([frame.to_ndarray(format="rgb24") for frame in decode(encode_h264(frames, 16))])
    error = np.square(frames.astype(float) - shown).mean()
    assert 10 * np.log10(255**2 / error) > 38


def test_other_shapes_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="even sizes"):
        encode_h264(np.zeros((1, 63, 96, 3), np.uint8), 16)
    with pytest.raises(AssertionError, match="RGB"):
        encode_h264(np.zeros((1, 64, 96, 4), np.uint8), 16)
