"""Where each latent frame lies in a session's view: a rule, not a table.

Keys are cached already rotated and attention inside the view is not causal, so the order of the frames in
memory is free. Frame `n`, counted from the session's start, lies in slot `n` while `n < view`, and then in
`sink + (n - sink) mod (view - sink)`: the slot of the frame that leaves the view with this block.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvcache.errors import GeometryRefused


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring slots that take neighbouring frames of a block."""

    offset: int  # first frame within the block
    slot: int
    length: int


@dataclass(frozen=True, slots=True)
class BlockSlots:
    """The slots of one block, and the prefix of the buffer that its queries attend to."""

    first_frame: int
    runs: tuple[Run, ...]  # one run where the geometry is aligned
    valid: int  # slots [0, valid) hold the frames that the block sees, itself included


@dataclass(frozen=True, slots=True)
class SlotRule:
    """A view of `view` latent frames: `sink` first ones that stay, and a ring of `view - sink` for the rest.

    Raises `GeometryRefused` where a block does not fit into the ring.
    """

    sink: int
    view: int
    frames_per_block: int

    def __post_init__(self) -> None:
        if self.frames_per_block < 1:
            raise GeometryRefused("frames_per_block", f"got {self.frames_per_block}, must be at least 1")
        if self.sink < 0:
            raise GeometryRefused("sink_frames", f"got {self.sink}, must be at least 0")
        if self.view - self.sink < self.frames_per_block:
            raise GeometryRefused(
                "view_frames",
                f"got {self.view}, must be at least sink + one block = {self.sink + self.frames_per_block}",
            )

    @property
    def ring(self) -> int:
        """Slots that are written again and again."""
        return self.view - self.sink

    @property
    def aligned(self) -> bool:
        """Whether every block lies in one run of slots (otherwise some wrap and are scattered in two or
        more).
        """
        return self.sink % self.frames_per_block == 0 and self.ring % self.frames_per_block == 0

    def slot(self, frame: int) -> int:
        """The slot of a latent frame, counted from the session's start."""
        assert frame >= 0
        return frame if frame < self.view else self.sink + (frame - self.sink) % self.ring

    def block(self, first_frame: int) -> BlockSlots:
        """Where the block that begins with `first_frame` is written, and what it sees."""
        runs: list[Run] = []
        for offset in range(self.frames_per_block):
            slot = self.slot(first_frame + offset)
            if runs and slot == runs[-1].slot + runs[-1].length:
                runs[-1] = Run(runs[-1].offset, runs[-1].slot, runs[-1].length + 1)
            else:
                runs.append(Run(offset, slot, 1))
        return BlockSlots(first_frame, tuple(runs), min(first_frame + self.frames_per_block, self.view))

    def kept(self, frames: int) -> tuple[int, ...]:
        """The slots, rising, that hold what the *next* block of a session of `frames` frames sees of the
        past.
        """
        upcoming = {self.slot(frames + offset) for offset in range(self.frames_per_block)}
        return tuple(slot for slot in range(min(frames, self.view)) if slot not in upcoming)
