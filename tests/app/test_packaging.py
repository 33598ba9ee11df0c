"""Every message holds its own chunk, whole, and plays from any point on."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import av
import numpy as np
import pytest

from app.packaging import Packager
from app.packaging.m4s import init_segment
from engine.api import EncodedChunk
from engine.media.chunk import encode_chunk

FPS = 16


def chunks(kind: str = "h264", count: int = 4) -> list[EncodedChunk]:
    """Chunks of 9, 12, 12 ... frames whose brightness counts the frames."""
    made, first = [], 0
    for index in range(count):
        length = 12 if index else 9
        frames = np.stack([np.full((64, 96, 3), 20 + 4 * (first + n), np.uint8) for n in range(length)])
        made.append(encode_chunk(frames, kind, FPS, first))  # type: ignore[arg-type]
        first += length
    return made


def decode(data: bytes) -> list[av.VideoFrame]:
    with av.open(io.BytesIO(data)) as container:
        return list(container.decode(video=0))


def brightness(frame: av.VideoFrame) -> float:
    return float(frame.to_ndarray(format="rgb24").mean())


def boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind.decode(), data[at + 8 : at + size]
        at += size


def inside(data: bytes, *path: str) -> bytes:
    for kind in path:
        data = next(body for name, body in boxes(data) if name == kind)
    return data


def test_each_m4s_message_decodes_to_exactly_the_frames_of_its_chunk() -> None:
    media = chunks()
    packager = Packager("m4s")
    messages = [packager.package(chunk).payload for chunk in media]
    init = init_segment(media[0])
    decoded = [decode(message if not index else init + message) for index, message in enumerate(messages)]
    assert [len(frames) for frames in decoded] == [9, 12, 12, 12]
    shown = [brightness(frame) for frames in decoded for frame in frames]
    assert np.allclose(shown, [20 + 4 * n for n in range(45)], atol=2.5)


def test_frames_are_shown_at_their_media_time() -> None:
    media = chunks()
    packager = Packager("m4s")
    messages = b"".join(packager.package(chunk).payload for chunk in media)
    assert [frame.time for frame in decode(messages)] == [n / FPS for n in range(45)]


def test_only_the_first_message_carries_the_init_segment() -> None:
    packager = Packager("m4s")
    kinds = [[name for name, _ in boxes(packager.package(chunk).payload)] for chunk in chunks()]
    assert kinds == [["ftyp", "moov", "moof", "mdat"]] + [["moof", "mdat"]] * 3


def test_a_stream_can_be_joined_at_any_chunk() -> None:
    media = chunks()
    message = Packager("m4s").package(media[2]).payload
    frames = decode(message)
    assert len(frames) == 12
    assert frames[0].time == 21 / FPS
    assert frames[0].key_frame


def test_the_init_segment_is_the_same_for_every_chunk() -> None:
    assert len({init_segment(chunk) for chunk in chunks()}) == 1


def test_fragments_are_numbered_and_timed() -> None:
    packager = Packager("m4s")
    messages = [packager.package(chunk).payload for chunk in chunks()]
    sequences = [struct.unpack(">4xI", inside(message, "moof", "mfhd"))[0] for message in messages]
    times = [struct.unpack(">4xQ", inside(message, "moof", "traf", "tfdt"))[0] for message in messages]
    assert sequences == [1, 2, 3, 4]
    assert times == [0, 9000, 21000, 33000]


def test_the_timeline_goes_on_after_a_reset() -> None:
    media = chunks()
    packager = Packager("m4s")
    placed = [packager.package(chunk).first_frame for chunk in (*media[:2], *media[:3])]
    assert placed == [0, 9, 21, 30, 42]


def test_the_timeline_keeps_a_gap_that_the_media_has() -> None:
    media = chunks()
    packager = Packager("m4s")
    assert [packager.package(media[index]).first_frame for index in (0, 2)] == [0, 21]


def test_frame_sizes_cut_an_annexb_message_into_access_units() -> None:
    media = chunks()[1]
    package = Packager("annexb").package(media)
    assert package.frame_sizes is not None and len(package.frame_sizes) == 12
    context = av.CodecContext.create("h264", "r")
    view, frames = package.payload, []
    for size in package.frame_sizes:
        unit, view = view[:size], view[size:]
        assert unit.startswith(b"\0\0\0\1")
        frames += context.decode(av.Packet(unit))
    assert view == b""
    assert len(frames) + len(context.decode(None)) == 12


def test_frame_sizes_cut_a_jpeg_message_into_pictures() -> None:
    media = chunks("jpeg", 1)[0]
    package = Packager("jpeg").package(media)
    assert package.frame_sizes is not None and sum(package.frame_sizes) == len(package.payload)
    at = 0
    for index, size in enumerate(package.frame_sizes):
        (picture,) = decode(package.payload[at : at + size])
        assert brightness(picture) == pytest.approx(20 + 4 * index, abs=2.5)
        at += size


def test_a_format_refuses_the_other_kind_of_media() -> None:
    with pytest.raises(AssertionError, match="jpeg cannot carry h264"):
        Packager("jpeg").package(chunks(count=1)[0])
