"""What the next block attends to: one contiguous buffer per layer, keys and values heads first.

The hot path is two copies and two slices that were made beforehand. There is no gather, no shift and no
table: the slots are a rule (`kvcache.slots`), a probe overwrites those of its block, a commit bumps the
frame counter, and a rollback leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvcache.errors import RestoreRefused
from kvcache.geometry import Geometry
from kvcache.holding import Holding, hold
from kvcache.ledger import Ledger
from kvcache.memory import Memory
from kvcache.pool import BlockPool
from kvcache.slots import BlockSlots, SlotRule
from kvcache.table import BlockTable

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""Torch's dtypes by the names that `Geometry` takes."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """What a snapshot keeps: the frames that the next block will see of the past, in slot order.

    `keys` and `values` hold one tensor per layer, [B, H, kept tokens, D], of their own memory.
    """

    frames: int
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class _LayerSlots:
    """One layer's part of a block: where it is written, and what it sees."""

    keys_to: tuple[Tensor, ...]  # one per run, [B, H, run tokens, D]
    values_to: tuple[Tensor, ...]
    seen: tuple[Tensor, Tensor]  # keys and values, [B, H, valid tokens, D]


class BlockView:
    """The slots of one block in every layer. Made once for each place in the view and used again."""

    def __init__(self, layers: tuple[_LayerSlots, ...]) -> None:
        self._layers = layers

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put the block's rotated keys and its values [B, H, block tokens, D] into their slots.

        Returns the keys and values that the block sees, itself included: [B, H, valid tokens, D], views of
        the buffer that the next write to this layer changes.
        """
        slots = self._layers[layer]
        slots.keys_to[0].copy_(keys)
        slots.values_to[0].copy_(values)
        return slots.seen


class ScatteredBlockView(BlockView):
    """A block whose slots wrap, as where `frames_per_block` does not divide both sink and ring."""

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As `BlockView.write`, run by run."""
        slots = self._layers[layer]
        lengths = [run.shape[2] for run in slots.keys_to]
        for target, source in zip(slots.keys_to, torch.split(keys, lengths, dim=2), strict=True):
            target.copy_(source)
        for target, source in zip(slots.values_to, torch.split(values, lengths, dim=2), strict=True):
            target.copy_(source)
        return slots.seen


class KVView:
    """One session's self-attention K/V. Made by `open_view`; one block is in flight at a time."""

    def __init__(self, geometry: Geometry, rule: SlotRule, table: BlockTable, held: Holding) -> None:
        self.geometry = geometry
        self.frames = 0  # committed latent frames, counted from the session's start
        self._rule = rule
        self._table = table
        self._held = held
        self._blocks: dict[BlockSlots, BlockView] = {}

    def begin(self) -> BlockView:
        """The next block's slots. Nothing is kept of it before `commit`. Raises `OutOfPages`."""
        self._table.begin()
        slots = self._rule.block(self.frames)
        place = BlockSlots(0, slots.runs, slots.valid)
        if place not in self._blocks:
            self._blocks[place] = self._make_block(place)
        return self._blocks[place]

    def commit(self) -> None:
        """The block's last write stands: it is part of what later blocks see."""
        self._table.commit()
        self.frames += self.geometry.frames_per_block

    def rollback(self) -> None:
        """Forget the block in flight; without one, does nothing. What it wrote, no later block sees."""
        self._table.rollback()

    def reset(self) -> None:
        """Back to an empty view, in the same memory."""
        self._table.release()
        self.frames = 0

    def state(self) -> ViewState:
        """A copy of what the next block will see, as of the last commit; [B, H, kept tokens, D] per layer."""
        runs = _runs(self._rule.kept(self.frames))
        layers = self.geometry.layers
        copies = [
            torch.cat([self._slots(tensor, slot, length) for slot, length in runs], dim=2)
            if runs
            else tensor.new_empty((*tensor.shape[:2], 0, tensor.shape[3]))
            for tensor in self._held.tensors
        ]
        return ViewState(self.frames, tuple(copies[:layers]), tuple(copies[layers:]))

    def restore(self, state: ViewState) -> None:
        """Become what `state` was taken of, so that later blocks round alike. Raises `RestoreRefused`,
        `OutOfPages`; then the view is as it was.
        """
        self._check(state)
        self._table.restore(state.frames)
        runs = _runs(self._rule.kept(state.frames))
        lengths = [length * self.geometry.tokens_per_frame for _, length in runs]
        for target, source in zip(self._held.tensors, state.keys + state.values, strict=True):
            for (slot, length), part in zip(
                runs, torch.split(source, lengths, dim=2) if runs else (), strict=True
            ):
                self._slots(target, slot, length).copy_(part)
        self.frames = state.frames

    def release(self) -> None:
        """Give the memory back and record it; may be repeated. Raises what the allocator raises."""
        self._blocks.clear()
        self._table.release()
        self._held.release()

    def _slots(self, tensor: Tensor, slot: int, length: int) -> Tensor:
        tokens = self.geometry.tokens_per_frame
        return tensor.narrow(2, slot * tokens, length * tokens)

    def _make_block(self, place: BlockSlots) -> BlockView:
        layers = self.geometry.layers
        parts = []
        for keys, values in zip(self._held.tensors[:layers], self._held.tensors[layers:], strict=True):
            seen = (self._slots(keys, 0, place.valid), self._slots(values, 0, place.valid))
            keys_to = tuple(self._slots(keys, run.slot, run.length) for run in place.runs)
            values_to = tuple(self._slots(values, run.slot, run.length) for run in place.runs)
            parts.append(_LayerSlots(keys_to, values_to, seen))
        return (BlockView if len(place.runs) == 1 else ScatteredBlockView)(tuple(parts))

    def _check(self, state: ViewState) -> None:
        block = self.geometry.frames_per_block
        if state.frames < 0 or state.frames % block:
            raise RestoreRefused(f"frames: got {state.frames}, must be whole blocks of {block}")
        tokens = len(self._rule.kept(state.frames)) * self.geometry.tokens_per_frame
        like = self._held.tensors[0]
        shape = (*like.shape[:2], tokens, like.shape[3])
        for name, tensors in (("keys", state.keys), ("values", state.values)):
            if len(tensors) != self.geometry.layers:
                raise RestoreRefused(f"{name}: got {len(tensors)} layers, must be {self.geometry.layers}")
            for layer, tensor in enumerate(tensors):
                if tuple(tensor.shape) != shape or tensor.dtype != like.dtype:
                    came = f"{tuple(tensor.shape)} {tensor.dtype}"
                    raise RestoreRefused(f"{name}[{layer}]: got {came}, must be {shape} {like.dtype}")


KEY = "self_attention"
"""The view's key in the ledger."""


def open_view(
    geometry: Geometry, owner: str, ledger: Ledger, memory: Memory, pool: BlockPool | None = None
) -> KVView:
    """Allocate the view of an owner that is open in the ledger: `geometry.view_pages` pages.

    Filled pages are counted in `pool`; a view without one has a pool of its own. Raises `OwnerClosed`,
    `OwnerTombstoned`, and what torch raises where the device is full; then nothing is left behind.
    """
    rule = SlotRule(geometry.sink_frames, geometry.view_frames, geometry.frames_per_block)
    tokens = geometry.view_frames * geometry.tokens_per_frame
    shape = (geometry.branches, geometry.kv_heads, tokens, geometry.head_dim)
    shapes = [shape] * (2 * geometry.layers)
    held = hold(owner, KEY, repr(geometry), shapes, DTYPES[geometry.dtype], ledger, memory)
    if pool is None:
        pool = BlockPool(geometry.view_pages + geometry.block_pages)
    return KVView(geometry, rule, BlockTable(rule, pool, geometry.branches), held)


def _runs(slots: tuple[int, ...]) -> list[tuple[int, int]]:
    """Rising slots as (first, length) of neighbours."""
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and slot == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((slot, 1))
    return runs
