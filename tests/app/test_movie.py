"""A recording opens as a video of exactly the frames that were sent, at the session's rate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from io import BytesIO
from typing import Literal

import av
import numpy as np
import pytest

from app.packaging.movie import movie
from engine.api import EncodedChunk
from engine.media.chunk import encode_chunk


def recorded(kind: Literal["h264", "jpeg"], chunks: int) -> list[EncodedChunk]:
    random = np.random.default_rng(1)
    tiles = [random.integers(0, 256, (12 if n else 9, 4, 6, 3), dtype=np.uint8) for n in range(chunks)]
    frames = [np.kron(tile, np.ones((1, 16, 16, 1), np.uint8)) for tile in tiles]
    return [encode_chunk(each, kind, 16, 0 if n == 2 else 12 * n) for n, each in enumerate(frames)]


async def listed(chunks: list[EncodedChunk]) -> AsyncIterator[EncodedChunk]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("kind", ["h264", "jpeg"])
async def test_any_player_shows_every_frame_as_it_was_sent(kind: Literal["h264", "jpeg"]) -> None:
    chunks = recorded(kind, 4)  # media time begins again at the third: a reset
    data = b"".join([piece async for piece in movie(listed(chunks))])
    with av.open(BytesIO(data)) as file:
        [stream] = file.streams.video
        assert (stream.width, stream.height, stream.average_rate) == (96, 64, 16)
        shown = list(file.decode(stream))
    assert [round(frame.time * 16) for frame in shown] == list(range(9 + 3 * 12))
    context = av.CodecContext.create("h264" if kind == "h264" else "mjpeg", "r")
    sent = [frame for chunk in chunks for unit in chunk.frames for frame in context.decode(av.Packet(unit))]
    sent += context.decode(None)
    assert len(sent) == len(shown)
    for a, b in zip(sent, shown, strict=True):
        assert np.array_equal(a.to_ndarray(format="rgb24"), b.to_ndarray(format="rgb24"))


async def test_nothing_recorded_is_no_file() -> None:
    assert [piece async for piece in movie(listed([]))] == []
