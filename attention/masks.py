"""Masks that carry the proof of their checks, so that a layer call never looks into them.

True means allowed. A mask is built once per geometry; building synchronises with the device, using it
does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from attention.errors import MaskRefused
from attention.packing import Packing

_CHECKED: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A checked mask; made by `build_mask` alone.

    `allowed` is what hides keys, ready for a kernel: None, bool (True = allowed) or additive,
    broadcastable to [B, H, Sq, Skv]; rows that hide every key are opened in it and listed in `dead` (bool,
    broadcastable to [B, H, Sq, 1]), whose outputs are zero. The parts are kept for the oracle.
    """

    batch: int
    query_length: int
    kv_length: int
    device: torch.device
    q_valid: Tensor | None
    kv_valid: Tensor | None
    pair: Tensor | None
    causal: bool
    packing: Packing | None
    allowed: Tensor | None
    dead: Tensor | None
    proof: object
    kind: frozenset[str] = field(init=False)  # of q_valid, kv_valid, pair_bool, pair_additive, causal, packed
    geometry: str = field(init=False)  # what a backend binds to; a string hashes once
    _biases: dict[torch.dtype, Tensor] = field(init=False, default_factory=dict, repr=False)
    _parts: dict[object, Mask] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.proof is not _CHECKED:
            raise MaskRefused("mask", "a mask made by build_mask", type(self.proof).__name__)
        allowed = None if self.allowed is None else (*self.allowed.shape, self.allowed.dtype)
        sizes = (self.batch, self.query_length, self.kv_length, self.device)
        object.__setattr__(self, "kind", _kind(self))
        object.__setattr__(self, "geometry", repr((sizes, sorted(self.kind), allowed, self.dead is not None)))

    @property
    def heads(self) -> int:
        """Query heads that it tells apart; 1 where it says the same to all, however many they are."""
        return 1 if self.pair is None else self.pair.shape[1]

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """`allowed` as what is added to logits of `dtype`. Made once; torch would make it in every call."""
        if self.allowed is None or self.allowed.dtype is not torch.bool:
            return self.allowed
        bias = self._biases.get(dtype)
        if bias is None:
            with torch.inference_mode(False):  # or training could not use what an inference made
                nothing = torch.zeros((), dtype=dtype, device=self.device)
                bias = self._biases[dtype] = nothing.masked_fill(~self.allowed, -torch.inf)
        return bias

    def rows(self, start: int, stop: int) -> Mask:
        """What the queries `start` to `stop` see of it. Made once, then remembered."""
        return self._part(("rows", start, stop), self._sliced, slice(start, stop), slice(None))

    def keys(self, start: int, stop: int) -> Mask:
        """What it says about the keys `start` to `stop`. Made once, then remembered."""
        return self._part(("keys", start, stop), self._sliced, slice(None), slice(start, stop))

    def of_heads(self, start: int, stop: int) -> Mask:
        """What it says to the query heads `start` to `stop`. Made once, then remembered."""
        return self if self.heads == 1 else self._part(("heads", start, stop), self._for_heads, start, stop)

    def _part(self, name: object, make: Callable[..., Mask], *span: object) -> Mask:
        if name not in self._parts:
            self._parts[name] = make(*span)
        return self._parts[name]

    def _sliced(self, rows: slice, keys: slice) -> Mask:
        """Causality and documents belong to whole sequences, so a slice holds all as one pair mask."""
        pair = _combined(self)
        if pair is not None:
            pair = pair[:, :, rows] if pair.shape[2] > 1 else pair
            pair = pair[..., keys] if pair.shape[3] > 1 else pair
        part = replace(
            self,
            query_length=len(range(*rows.indices(self.query_length))),
            kv_length=len(range(*keys.indices(self.kv_length))),
            q_valid=None if self.q_valid is None else self.q_valid[:, rows],
            kv_valid=None,
            pair=pair,
            causal=False,
            packing=None,
        )
        return _finished(part)

    def _for_heads(self, start: int, stop: int) -> Mask:
        assert self.pair is not None
        return _finished(replace(self, pair=self.pair[:, start:stop]))


def build_mask(
    *,
    batch: int,
    query_length: int,
    kv_length: int,
    heads: int = 1,
    q_valid: Tensor | None = None,
    kv_valid: Tensor | None = None,
    pair: Tensor | None = None,
    causal: bool = False,
    packing: Packing | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Mask:
    """Check the parts of a mask and combine them.

    `heads` are those of the queries, which only a pair that tells them apart needs. `q_valid` [B, Sq] and
    `kv_valid` [B, Skv] are bool; `pair` is bool or floating (added to the logits; -inf hides) and
    broadcastable to [B, H, Sq, Skv]. A floating pair is used in `dtype`, the queries' (default its own);
    what is finite stays so. `packing` adds the isolation of documents. The parts are copied: what becomes
    of the originals changes nothing. Raises `MaskRefused`.
    """
    sizes = {"batch": batch, "heads": heads, "query_length": query_length, "kv_length": kv_length}
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise MaskRefused(name, "an integer of at least 1", repr(size))
    where = _device(device, q_valid, kv_valid, pair)
    _check_validity("q_valid", q_valid, batch, query_length)
    _check_validity("kv_valid", kv_valid, batch, kv_length)
    if pair is not None:
        _check_pair(pair, (batch, heads, query_length, kv_length))
        pair = pair.clone() if pair.dtype is torch.bool else _cast(pair, dtype or pair.dtype)
    if packing is not None:
        _check_packing(packing, batch, query_length, kv_length)
    parts = Mask(
        batch=batch,
        query_length=query_length,
        kv_length=kv_length,
        device=where,
        q_valid=None if q_valid is None else q_valid.clone(),
        kv_valid=None if kv_valid is None else kv_valid.clone(),
        pair=pair,
        causal=causal,
        packing=packing,
        allowed=None,
        dead=None,
        proof=_CHECKED,
    )
    return _finished(parts)


def _finished(mask: Mask) -> Mask:
    """The mask with `allowed` and `dead` computed from its parts."""
    allowed, dead = _open_hidden_rows(_combined(mask))
    if mask.q_valid is not None:
        invalid = ~mask.q_valid[:, None, :, None]  # [B, 1, Sq, 1]
        dead = invalid if dead is None else dead | invalid
        dead = dead if bool(dead.any()) else None
    return replace(mask, allowed=allowed, dead=dead)


def _combined(mask: Mask) -> Tensor | None:
    """One tensor [B|1, H|1, Sq|1, Skv|1], or None where nothing is hidden."""
    hides = []
    if mask.causal:
        shape = (1, 1, mask.query_length, mask.kv_length)
        ones = torch.ones(shape, dtype=torch.bool, device=mask.device)
        hides.append(ones.tril(mask.kv_length - mask.query_length))
    if mask.kv_valid is not None:
        hides.append(mask.kv_valid[:, None, None, :])
    if mask.packing is not None:
        hides.append(mask.packing.isolation(mask.device))
    if mask.pair is not None and mask.pair.dtype is torch.bool:
        hides.append(mask.pair)
    allowed = hides[0] if hides else None
    for more in hides[1:]:
        assert allowed is not None
        allowed = allowed & more
    if mask.pair is None or mask.pair.dtype is torch.bool:
        return allowed
    return mask.pair if allowed is None else torch.where(allowed, mask.pair, -torch.inf)


def _open_hidden_rows(allowed: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Rows that hide every key: opened, so that no softmax is 0/0, and listed, so that they are zeroed."""
    if allowed is None:
        return None, None
    seen = allowed if allowed.dtype is torch.bool else allowed > -torch.inf
    dead = ~seen.any(dim=-1, keepdim=True)  # [B|1, H|1, Sq|1, 1]
    if not bool(dead.any()):
        return allowed, None
    return allowed | dead if allowed.dtype is torch.bool else allowed.masked_fill(dead, 0.0), dead


def _kind(mask: Mask) -> frozenset[str]:
    names = {
        "q_valid": mask.q_valid is not None,
        "kv_valid": mask.kv_valid is not None,
        "pair_bool": mask.pair is not None and mask.pair.dtype is torch.bool,
        "pair_additive": mask.pair is not None and mask.pair.dtype is not torch.bool,
        "causal": mask.causal,
        "packed": mask.packing is not None,
    }
    return frozenset(name for name, present in names.items() if present)


def _device(device: torch.device | str | None, *parts: Tensor | None) -> torch.device:
    """Where the parts lie (all on one device), else `device`."""
    names = ("q_valid", "kv_valid", "pair")
    given = [(name, part) for name, part in zip(names, parts, strict=True) if part is not None]
    for name, part in given:
        if not isinstance(part, Tensor):
            raise MaskRefused(name, "a tensor", type(part).__name__)
    if device is None:
        where = given[0][1].device if given else torch.device("cpu")
    else:
        where = torch.empty(0, device=device).device  # with its index
    for name, part in given:
        if part.device != where:
            raise MaskRefused(name, f"a tensor on {where}", part.device)
    return where


def _check_validity(name: str, valid: Tensor | None, batch: int, length: int) -> None:
    if valid is None:
        return
    if valid.dtype is not torch.bool:
        raise MaskRefused(name, "dtype bool", valid.dtype)
    if tuple(valid.shape) != (batch, length):
        raise MaskRefused(name, f"shape {(batch, length)}", tuple(valid.shape))


def _check_pair(pair: Tensor, full: tuple[int, int, int, int]) -> None:
    if pair.dtype is not torch.bool and not pair.dtype.is_floating_point:
        raise MaskRefused("pair", "dtype bool or floating", pair.dtype)
    fits = pair.ndim == 4 and all(size in (1, want) for size, want in zip(pair.shape, full, strict=True))
    if not fits:
        raise MaskRefused("pair", f"rank 4, broadcastable to {full}", tuple(pair.shape))
    if pair.dtype is not torch.bool and bool((pair.isnan() | (pair == torch.inf)).any()):
        raise MaskRefused("pair", "finite numbers or -inf", "NaN or +inf")


def _check_packing(packing: Packing, batch: int, query_length: int, kv_length: int) -> None:
    if not isinstance(packing, Packing):
        raise MaskRefused("packing", "a packing made by pack_self or pack_cross", type(packing).__name__)
    wanted, came = (1, query_length, kv_length), (batch, packing.query_length, packing.kv_length)
    if came != wanted:
        raise MaskRefused("packing", f"(batch, queries, keys) {wanted}", came)


def _cast(pair: Tensor, dtype: torch.dtype) -> Tensor:
    """In `dtype`, with what is finite kept finite: a large negative number must not become -inf."""
    if not dtype.is_floating_point:
        raise MaskRefused("dtype", "a floating dtype", dtype)
    if pair.dtype is dtype:
        return pair.clone()
    limit = torch.finfo(dtype).max
    return (
        pair.masked_fill(pair == -torch.inf, 0.0)
        .clamp(-limit, limit)
        .to(dtype)
        .masked_fill(pair == -torch.inf, -torch.inf)
    )
