"""Where published conditioning lies.

As the tensors it came in, or in pages beside the self-attention cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from kvcache.errors import GeometryRefused
from kvcache.identity import Representation
from kvcache.memory import Allocation, Memory
from kvcache.pool import BlockPool
from kvcache.view import DTYPES

LayerKV = tuple[Tensor, Tensor]
"""One layer's keys and values, in the layout of their `Representation`."""


@dataclass(slots=True, eq=False)
class Stored:
    """A value as readers get it, and what it takes to free it."""

    layers: tuple[LayerKV, ...]
    bytes: int
    held: Allocation | None = None
    pages: tuple[int, ...] = ()


class Storage(Protocol):
    """Keeps values until they are freed. Faults are injected by subclass."""

    @property
    def live_bytes(self) -> int:
        """Bytes of all values that are kept."""

    def put(self, layers: Sequence[LayerKV], representation: Representation) -> Stored:
        """Keep a value whose shapes were checked. Raises where there is no room, and then keeps nothing."""

    def free(self, stored: Stored) -> None:
        """Let a value go; may be repeated."""


class PlainStorage:
    """Keeps the very tensors that are published, without a copy."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._bytes = 0

    @property
    def live_bytes(self) -> int:
        """Bytes of all values that are kept."""
        return self._bytes

    def put(self, layers: Sequence[LayerKV], representation: Representation) -> Stored:
        """Keep `layers`; their producer must not write to them again."""
        held = self._memory.adopt(tensor for pair in layers for tensor in pair)
        self._bytes += held.bytes
        return Stored(tuple(layers), held.bytes, held)

    def free(self, stored: Stored) -> None:
        """Let go of the tensors."""
        if stored.held is None:
            return
        self._memory.free(stored.held)
        self._bytes -= stored.bytes
        stored.held, stored.layers = None, ()


class PagedStorage:
    """Copies values into pages of one arena, of the self-attention cache's page size.

    A value takes neighbouring pages, `batch * ceil(length / page_tokens)` of them, so that its readers get
    slices and nothing is gathered. Made by `open_paged_storage`.
    """

    def __init__(
        self, arena: Allocation, layers: int, page_tokens: int, pool: BlockPool, memory: Memory
    ) -> None:
        self._arena = arena  # 2 * layers tensors [H, pages * page_tokens, D]: all keys, then all values
        self._layers = layers
        self._page_tokens = page_tokens
        self._pool = pool
        self._memory = memory
        self._page_bytes = arena.bytes // pool.total

    @property
    def pool(self) -> BlockPool:
        """The pages of the arena."""
        return self._pool

    @property
    def live_bytes(self) -> int:
        """Bytes of the pages that hold values."""
        return self._pool.in_use * self._page_bytes

    def put(self, layers: Sequence[LayerKV], representation: Representation) -> Stored:
        """Copy a value in. Raises `GeometryRefused` for sizes the arena was not made for, `OutOfPages`."""
        self._check(representation)
        pages = self._pool.allocate_run(representation.batch * -(-representation.length // self._page_tokens))
        try:
            copies = [self._slices(layer, pages, representation) for layer in range(self._layers)]
            for (to_keys, to_values), (keys, values) in zip(copies, layers, strict=True):
                to_keys.copy_(keys)
                to_values.copy_(values)
        except BaseException:
            self._pool.release(pages)
            raise
        return Stored(tuple(copies), len(pages) * self._page_bytes, pages=pages)

    def free(self, stored: Stored) -> None:
        """Give the pages back."""
        self._pool.release(stored.pages)
        stored.pages, stored.layers = (), ()

    def close(self) -> None:
        """Give the arena back. Its values must have been freed."""
        assert self._pool.in_use == 0
        self._memory.free(self._arena)

    def _slices(self, layer: int, pages: tuple[int, ...], representation: Representation) -> LayerKV:
        tensors = self._arena.tensors
        keys, values = tensors[layer], tensors[self._layers + layer]
        return (self._slice(keys, pages, representation), self._slice(values, pages, representation))

    def _slice(self, tensor: Tensor, pages: tuple[int, ...], representation: Representation) -> Tensor:
        run = tensor.narrow(1, pages[0] * self._page_tokens, len(pages) * self._page_tokens)
        rows = run.view(run.shape[0], representation.batch, -1, run.shape[2])  # [H, B, tokens, D]
        tokens = rows.narrow(2, 0, representation.length)
        return tokens.permute(1, 0, 2, 3) if representation.layout == "BNSD" else tokens.permute(1, 2, 0, 3)

    def _check(self, representation: Representation) -> None:
        like = self._arena.tensors[0]
        heads, _, head_dim = like.shape
        for name, came, made in (
            ("layers", representation.layers, self._layers),
            ("heads", representation.heads, heads),
            ("head_dim", representation.head_dim, head_dim),
            ("dtype", DTYPES.get(representation.dtype), like.dtype),
        ):
            if came != made:
                raise GeometryRefused(name, f"got {came}, the arena was made for {made}")


def open_paged_storage(
    representation: Representation, page_tokens: int, pages: int, memory: Memory
) -> PagedStorage:
    """An arena of `pages` pages of `page_tokens` tokens.

    For values of this representation's layers and heads.
    """
    shape = (representation.heads, pages * page_tokens, representation.head_dim)
    arena = memory.allocate([shape] * (2 * representation.layers), DTYPES[representation.dtype])
    return PagedStorage(arena, representation.layers, page_tokens, BlockPool(pages), memory)
