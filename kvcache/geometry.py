"""The sizes that decide what a session's caches weigh."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kvcache.errors import GeometryRefused

ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one element, by the dtype's name."""

MOST = 2**63 - 1
"""Of any field: products of a few can be printed."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of a model's caches, in the units that each name says; frames are latent frames.

    `window_frames` is the view without the sink, the block in flight included. Raises `GeometryRefused`
    with the name of a field that is out of range.
    """

    layers: int
    kv_heads: int
    head_dim: int
    dtype: str
    tokens_per_frame: int
    sink_frames: int
    window_frames: int
    frames_per_block: int
    branches: int = 1  # classifier-free guidance has two
    cross_tokens: int = 0
    model_state_bytes: int = 0  # per session: codec histories and the like
    max_scratch_tokens: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or self.dtype not in ITEM_BYTES:
            raise GeometryRefused("dtype", f"got {self.dtype!r}, must be one of {', '.join(ITEM_BYTES)}")
        least_zero = ("sink_frames", "cross_tokens", "model_state_bytes", "max_scratch_tokens")
        for name, value in asdict(self).items():
            if name == "dtype":
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise GeometryRefused(name, f"got {value!r}, must be an integer")
            least = 0 if name in least_zero else 1
            if not least <= value <= MOST:
                got = value if abs(value) <= MOST else "a number beyond 64 bits"
                raise GeometryRefused(name, f"got {got}, must be at least {least} and at most {MOST}")
        if self.window_frames < self.frames_per_block:
            raise GeometryRefused(
                "window_frames",
                f"got {self.window_frames}, must hold one block of {self.frames_per_block} frames",
            )

    @property
    def view_frames(self) -> int:
        """Sink, recent and current frames together."""
        return self.sink_frames + self.window_frames

    @property
    def page_bytes(self) -> int:
        """One latent frame's keys and values in all layers, of one branch."""
        return (
            self.layers * 2 * self.tokens_per_frame * self.kv_heads * self.head_dim * ITEM_BYTES[self.dtype]
        )

    @property
    def cross_bytes(self) -> int:
        """One session's text keys and values in all layers and branches."""
        per_token = self.layers * 2 * self.kv_heads * self.head_dim * ITEM_BYTES[self.dtype]
        return per_token * self.cross_tokens * self.branches

    @property
    def view_pages(self) -> int:
        """Pages that one session's full view holds."""
        return self.branches * self.view_frames

    @property
    def block_pages(self) -> int:
        """Pages of the block in flight."""
        return self.branches * self.frames_per_block
