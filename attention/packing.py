"""Several documents in one row of tokens, and which of them may see each other.

Boundaries are checked once, when a packing is built; a layer call does not look at them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor

from attention.declaration import Computation
from attention.errors import RequestRefused

_CHECKED: Final = object()

Span = tuple[int, int]
"""First token of a document, and the one after its last."""


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Documents along the sequence of a batch of one; made by `pack_self` or `pack_cross` alone.

    `pairs` holds, for each document of the queries in order, its tokens and those of the K/V document
    that it sees; None where it sees none, so that its output is zero.
    """

    computation: Computation
    query_length: int
    kv_length: int
    pairs: tuple[tuple[Span, Span | None], ...]
    proof: object

    def __post_init__(self) -> None:
        if self.proof is not _CHECKED:
            raise RequestRefused(
                "layout", "a packing made by pack_self or pack_cross", type(self.proof).__name__
            )

    def isolation(self, device: torch.device) -> Tensor:
        """The documents as a pair mask, bool [1, 1, Sq, Skv]."""
        allowed = torch.zeros((1, 1, self.query_length, self.kv_length), dtype=torch.bool)
        for (start, stop), seen in self.pairs:
            if seen is not None:
                allowed[:, :, start:stop, seen[0] : seen[1]] = True
        return allowed.to(device)


def pack_self(boundaries: Sequence[int] | Tensor) -> Packing:
    """Joint self-attention: every document sees itself alone.

    `boundaries` are the cumulative lengths, from 0 to the length of the sequence. Raises `RequestRefused`.
    """
    spans = _spans("boundaries", boundaries)
    length = spans[-1][1]
    return Packing(Computation.SELF, length, length, tuple((span, span) for span in spans), _CHECKED)


def pack_cross(
    q_boundaries: Sequence[int] | Tensor,
    kv_boundaries: Sequence[int] | Tensor,
    document_map: Sequence[int | None],
) -> Packing:
    """Cross-attention with boundaries of its own on either side.

    `document_map` names, for each document of the queries, the K/V document that it sees, or None; several
    may see the same. It is never inferred from equal counts. Raises `RequestRefused`.
    """
    queries, keys = _spans("q_boundaries", q_boundaries), _spans("kv_boundaries", kv_boundaries)
    if len(document_map) != len(queries):
        expected = f"{len(queries)} entries, one per query document"
        raise RequestRefused("document_map", expected, f"{len(document_map)} entries")
    for seen in document_map:
        if seen is not None and (not _is_int(seen) or not 0 <= seen < len(keys)):
            raise RequestRefused("document_map", f"None or a K/V document below {len(keys)}", repr(seen))
    pairs = tuple(
        (span, None if seen is None else keys[seen]) for span, seen in zip(queries, document_map, strict=True)
    )
    return Packing(Computation.CROSS, queries[-1][1], keys[-1][1], pairs, _CHECKED)


def _spans(name: str, boundaries: Sequence[int] | Tensor) -> tuple[Span, ...]:
    if isinstance(boundaries, Tensor):
        if boundaries.ndim != 1 or boundaries.dtype not in (torch.int32, torch.int64):
            came = f"{boundaries.dtype} of shape {tuple(boundaries.shape)}"
            raise RequestRefused(name, "a vector of integers", came)
        boundaries = boundaries.tolist()
    bounds = tuple(boundaries)
    rising = all(_is_int(bound) for bound in bounds) and all(
        first < second for first, second in pairwise(bounds)
    )
    if len(bounds) < 2 or not rising or bounds[0] != 0:
        raise RequestRefused(name, "rising integers that start at 0, at least two", list(bounds))
    return tuple(pairwise(bounds))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
