"""A recording as one MP4 file, from the very frames that were sent: nothing is encoded again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.packaging.boxes import SYNC, box, ftyp, moof, moov, mp4v_jpeg
from app.packaging.m4s import TICKS_PER_FRAME, fragment, init_segment
from engine.api import EncodedChunk


async def movie(chunks: AsyncIterator[EncodedChunk]) -> AsyncIterator[bytes]:
    """The file piece by piece: its head with the first chunk, then a fragment for each one.

    All chunks are of one kind and size. They follow on one another without a gap, whatever their media time;
    without any, there is no piece.
    """
    packed = frames = 0
    async for media in chunks:
        if packed == 0:
            yield head(media)
        packed += 1
        yield _fragment(media, packed, frames)
        frames += len(media.frames)


def head(media: EncodedChunk) -> bytes:
    """`ftyp` and `moov` for the kind of `media`."""
    if media.kind == "h264":
        return init_segment(media)
    entry = mp4v_jpeg(media.width, media.height)
    return ftyp() + moov(media.width, media.height, media.fps * TICKS_PER_FRAME, entry)


def _fragment(media: EncodedChunk, sequence: int, first_frame: int) -> bytes:
    if media.kind == "h264":
        return fragment(media, sequence, first_frame)
    sizes = [len(picture) for picture in media.frames]
    begin = moof(sequence, first_frame * TICKS_PER_FRAME, TICKS_PER_FRAME, sizes, others=SYNC)
    return begin + box(b"mdat", *media.frames)
