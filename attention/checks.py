"""What the entry asks of a request, before anything is computed. Each refusal names the argument."""

from __future__ import annotations

import torch
from torch import Tensor

from attention.declaration import Declaration, Placement
from attention.errors import RequestRefused
from attention.masks import Mask
from attention.packing import Packing
from attention.shards import Shards

Layout = Packing | Shards
"""How the tokens of a request lie: documents in one row, or over the ranks of a group."""


def check_tensors(declaration: Declaration, q: Tensor, k: Tensor, v: Tensor, least: int = 1) -> None:
    """Rank, lengths, heads, head dim, dtype and device of q, k and v.

    `least` tokens must be there: a rank's share of a placement may be empty. Raises `RequestRefused`.
    """
    heads = (("q", q, declaration.heads), ("k", k, declaration.kv_heads), ("v", v, declaration.kv_heads))
    for name, tensor, count in heads:
        _check_tensor(name, tensor, count, declaration.head_dim, least)
        if tensor.dtype is not q.dtype:
            raise RequestRefused(name, f"dtype {q.dtype}, as q", tensor.dtype)
        if tensor.device != q.device:
            raise RequestRefused(name, f"device {q.device}, as q", tensor.device)
        if tensor.shape[0] != q.shape[0]:
            raise RequestRefused(name, f"batch {q.shape[0]}, as q", tensor.shape[0])
    if v.shape[1] != k.shape[1]:
        raise RequestRefused("v", f"length {k.shape[1]}, as k", v.shape[1])


def _check_tensor(name: str, tensor: Tensor, heads: int, head_dim: int, least: int) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise RequestRefused(name, "a tensor", type(tensor).__name__)
    if tensor.ndim != 4:
        came = f"shape {tuple(tensor.shape)}"
        raise RequestRefused(name, "rank 4, [batch, sequence, heads, head dim]", came)
    if not tensor.dtype.is_floating_point:
        raise RequestRefused(name, "a floating dtype", tensor.dtype)
    if tensor.shape[0] < 1 or tensor.shape[1] < least:
        came = f"shape {tuple(tensor.shape)}"
        raise RequestRefused(name, f"at least 1 row and {least} token(s)", came)
    if tensor.shape[2] != heads:
        raise RequestRefused(name, f"{heads} heads", tensor.shape[2])
    if tensor.shape[3] != head_dim:
        raise RequestRefused(name, f"head dim {head_dim}", tensor.shape[3])


def check_mask(
    declaration: Declaration, mask: Mask, batch: int, queries: int, keys: int, like: Tensor
) -> None:
    """A mask against the whole request, all ranks together. Raises `RequestRefused`."""
    if not isinstance(mask, Mask):
        raise RequestRefused("mask", "a mask made by build_mask", type(mask).__name__)
    wanted, came = (batch, queries, keys), (mask.batch, mask.query_length, mask.kv_length)
    if came != wanted:
        raise RequestRefused("mask", f"(batch, queries, keys) {wanted}", came)
    if mask.heads not in (1, declaration.heads):
        raise RequestRefused("mask", f"1 or {declaration.heads} heads", mask.heads)
    if mask.device != like.device:
        raise RequestRefused("mask", f"device {like.device}, as q", mask.device)
    if mask.causal != declaration.causal:
        raise RequestRefused("mask", f"causal={declaration.causal}, as declared", f"causal={mask.causal}")
    if mask.packing is not None and mask.packing.computation is not declaration.computation:
        expected = f"a packing for {declaration.computation} attention"
        raise RequestRefused("mask", expected, f"one for {mask.packing.computation}")
    if mask.pair is not None and mask.pair.dtype not in (torch.bool, like.dtype):
        raise RequestRefused("mask", f"an additive pair in {like.dtype}, as q", mask.pair.dtype)


def check_packing(declaration: Declaration, packing: object, q: Tensor, k: Tensor, mask: Mask | None) -> None:
    """The documents of a packed request. Raises `RequestRefused`."""
    if isinstance(packing, Shards):
        raise RequestRefused("layout", f"no shards for placement {Placement.NONE}", "shards")
    if not isinstance(packing, Packing):
        raise RequestRefused("layout", "a packing or None", type(packing).__name__)
    if packing.computation is not declaration.computation:
        expected = f"a packing for {declaration.computation} attention"
        raise RequestRefused("layout", expected, f"one for {packing.computation}")
    wanted = (1, packing.query_length, packing.kv_length)
    came = (q.shape[0], q.shape[1], k.shape[1])
    if came != wanted:
        raise RequestRefused("layout", f"(batch, queries, keys) {wanted}, as packed", came)
    if mask is not None:
        raise RequestRefused("mask", "None beside a packing (build_mask takes one in)", "a mask")
