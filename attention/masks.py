"""Masks that carry the proof of their checks, so that a layer call never looks into them.

True means allowed. A mask is built once per geometry; building synchronises with the device, using it
does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from attention.errors import MaskRefused

_CHECKED: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A checked mask; made by `build_mask` alone.

    `allowed` is what hides keys, ready for a kernel: None, bool (True = allowed) or additive,
    broadcastable to [B, H, Sq, Skv]; rows that hide every key are opened in it and listed in `dead` ([B,
    H|1, Sq, 1] bool), whose outputs are zero. The parts are kept for the oracle.
    """

    kind: frozenset[str]  # of q_valid, kv_valid, pair_bool, pair_additive, causal
    batch: int
    query_length: int
    kv_length: int
    allowed: Tensor | None
    dead: Tensor | None
    q_valid: Tensor | None
    kv_valid: Tensor | None
    pair: Tensor | None
    causal: bool
    device: torch.device
    proof: object

    def __post_init__(self) -> None:
        if self.proof is not _CHECKED:
            raise MaskRefused("mask", "a mask made by build_mask", type(self.proof).__name__)

    @property
    def geometry(self) -> tuple[object, ...]:
        """What a backend binds to: sizes, kinds and whether rows have to be zeroed."""
        allowed = None if self.allowed is None else (self.allowed.shape, self.allowed.dtype)
        return self.batch, self.query_length, self.kv_length, self.kind, allowed, self.dead is not None


def build_mask(
    *,
    batch: int,
    heads: int,
    query_length: int,
    kv_length: int,
    q_valid: Tensor | None = None,
    kv_valid: Tensor | None = None,
    pair: Tensor | None = None,
    causal: bool = False,
    device: torch.device | str | None = None,
) -> Mask:
    """Check the parts of a mask and combine them.

    `q_valid` [B, Sq] and `kv_valid` [B, Skv] are bool; `pair` is bool or floating (added to the logits;
    -inf hides) and broadcastable to [B, H, Sq, Skv]. Raises `MaskRefused`.
    """
    parts = [part for part in (q_valid, kv_valid, pair) if part is not None]
    where = parts[0].device if parts else torch.device(device or "cpu")
    for name, part in (("q_valid", q_valid), ("kv_valid", kv_valid), ("pair", pair)):
        if part is not None and part.device != where:
            raise MaskRefused(name, f"a tensor on {where}", part.device)
    _check_validity("q_valid", q_valid, batch, query_length)
    _check_validity("kv_valid", kv_valid, batch, kv_length)
    if pair is not None:
        _check_pair(pair, (batch, heads, query_length, kv_length))
    allowed = _combine(kv_valid, pair, _causal(query_length, kv_length, where) if causal else None)
    allowed, dead = _open_hidden_rows(allowed, query_length, kv_length)
    if q_valid is not None:
        invalid = ~q_valid[:, None, :, None]  # [B, 1, Sq, 1]
        dead = invalid if dead is None else dead | invalid
        dead = dead if bool(dead.any()) else None
    return Mask(
        kind=_kind(q_valid, kv_valid, pair, causal),
        batch=batch,
        query_length=query_length,
        kv_length=kv_length,
        allowed=allowed,
        dead=dead,
        q_valid=q_valid,
        kv_valid=kv_valid,
        pair=pair,
        causal=causal,
        device=where,
        proof=_CHECKED,
    )


def _kind(
    q_valid: Tensor | None, kv_valid: Tensor | None, pair: Tensor | None, causal: bool
) -> frozenset[str]:
    names = {"q_valid": q_valid is not None, "kv_valid": kv_valid is not None, "causal": causal}
    names["pair_bool"] = pair is not None and pair.dtype is torch.bool
    names["pair_additive"] = pair is not None and pair.dtype is not torch.bool
    return frozenset(name for name, present in names.items() if present)


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


def _causal(query_length: int, kv_length: int, device: torch.device) -> Tensor:
    shape = (1, 1, query_length, kv_length)
    return torch.ones(shape, dtype=torch.bool, device=device).tril(kv_length - query_length)


def _combine(kv_valid: Tensor | None, pair: Tensor | None, causal: Tensor | None) -> Tensor | None:
    """One tensor [B|1, H|1, Sq|1, Skv|1], or None where nothing is hidden."""
    allowed = causal
    if kv_valid is not None:
        keys = kv_valid[:, None, None, :]
        allowed = keys if allowed is None else allowed & keys
    if pair is None:
        return allowed
    if pair.dtype is torch.bool:
        return pair if allowed is None else pair & allowed
    return pair if allowed is None else torch.where(allowed, pair, -torch.inf)


def _open_hidden_rows(
    allowed: Tensor | None, query_length: int, kv_length: int
) -> tuple[Tensor | None, Tensor | None]:
    """Rows that hide every key: opened, so that no softmax is 0/0, and listed, so that they are zeroed."""
    if allowed is None:
        return None, None
    seen = allowed if allowed.dtype is torch.bool else allowed > -torch.inf
    dead = ~seen.any(dim=-1, keepdim=True)  # [B|1, H|1, Sq|1, 1]
    if not bool(dead.any()):
        return allowed, None
    opened = allowed | dead if allowed.dtype is torch.bool else allowed.masked_fill(dead, 0.0)
    return opened, dead.expand(-1, -1, query_length, 1)
