"""The binary messages of one stream, in the format that its client asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.packaging.m4s import fragment, init_segment
from engine.api import EncodedChunk

Format = Literal["m4s", "annexb", "jpeg"]


@dataclass(frozen=True, slots=True)
class Package:
    """One binary message. `first_frame` is its place on the stream's timeline, in frames.

    `frame_sizes` cuts the payload of `annexb` into access units, of `jpeg` into pictures; `m4s` has none.
    """

    payload: bytes
    first_frame: int
    frame_sizes: tuple[int, ...] | None


class Packager:
    """Packages the chunks that one client sees, in the order in which it sees them.

    The stream may begin at any chunk: its first `m4s` message carries the init segment. Its timeline is that
    of the media and never runs backwards: where media time does (reset, rewind), chunks just follow on.
    """

    def __init__(self, format: Format) -> None:
        self.format = format
        self._packed = 0
        self._offset = 0
        self._end = 0

    def package(self, media: EncodedChunk) -> Package:
        """The message for the next chunk."""
        assert media.kind == ("jpeg" if self.format == "jpeg" else "h264"), (
            f"{self.format} cannot carry {media.kind}"
        )
        first = self._place(media)
        self._packed += 1
        if self.format != "m4s":
            return Package(b"".join(media.frames), first, tuple(len(frame) for frame in media.frames))
        moof = fragment(media, sequence=self._packed, first_frame=first)
        return Package(init_segment(media) + moof if self._packed == 1 else moof, first, None)

    def _place(self, media: EncodedChunk) -> int:
        if media.first_frame + self._offset < self._end:
            self._offset = self._end - media.first_frame
        first = media.first_frame + self._offset
        self._end = first + len(media.frames)
        return first
