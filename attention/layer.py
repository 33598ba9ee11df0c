"""The one entry: attention over already projected Q, K and V."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attention.backends import BACKENDS
from attention.backends.base import Backend, Kernel
from attention.capabilities import Needs
from attention.declaration import Declaration, Placement
from attention.errors import RequestRefused
from attention.masks import Mask, build_mask
from attention.selection import BackendPolicy, ResolvedPath, resolve

REMEMBERED_GEOMETRIES = 64


class Attention:
    """Executes one declared attention. Checks and backend choice happen once per geometry, not per call."""

    def __init__(
        self,
        declaration: Declaration,
        policy: BackendPolicy | None = None,
        backends: Mapping[str, Backend] = BACKENDS,
    ) -> None:
        self.declaration = declaration
        self.path: ResolvedPath | None = None
        self._policy = policy or BackendPolicy()
        self._backends = backends
        self._kernels: dict[tuple[object, ...], Kernel] = {}

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        """Attend.

        q [B, Sq, Hq, D], k and v [B, Skv, Hkv, D] -> [B, Sq, Hq, D]. Rows hidden by `mask` are zero. Raises
        `RequestRefused` naming the argument, `BackendRefused` where an explicit choice can't serve.
        """
        key = (
            q.shape,
            k.shape,
            v.shape,
            q.dtype,
            k.dtype,
            v.dtype,
            q.device,
            k.device,
            v.device,
            None if mask is None else mask.geometry,
        )
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._bind(q, k, v, mask)
            if len(self._kernels) >= REMEMBERED_GEOMETRIES:
                self._kernels.clear()
            self._kernels[key] = kernel
        return kernel(q, k, v, mask)

    def _bind(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Kernel:
        check_request(self.declaration, q, k, v, mask)
        if self.declaration.causal and mask is None and q.shape[1] != k.shape[1]:
            return self._bind_unequal_causal(q, k, v)
        needs = _needs(self.declaration, q, k, mask)
        backend, self.path = resolve(self.declaration, needs, self._policy, self._backends)
        return backend.bind(needs)

    def _bind_unequal_causal(self, q: Tensor, k: Tensor, v: Tensor) -> Kernel:
        """Libraries disagree on how causal rows align where the lengths differ; ours is written as a mask."""
        built = build_mask(
            batch=q.shape[0],
            heads=q.shape[2],
            query_length=q.shape[1],
            kv_length=k.shape[1],
            causal=True,
            device=q.device,
        )
        kernel = self._bind(q, k, v, built)
        return lambda q, k, v, mask: kernel(q, k, v, built)


def _needs(declaration: Declaration, q: Tensor, k: Tensor, mask: Mask | None) -> Needs:
    return Needs(
        batch=q.shape[0],
        query_length=q.shape[1],
        kv_length=k.shape[1],
        heads=declaration.heads,
        kv_heads=declaration.kv_heads,
        head_dim=declaration.head_dim,
        dtype=q.dtype,
        device=q.device,
        scale=declaration.logit_scale,
        causal=declaration.causal,
        mask_kind=frozenset() if mask is None else mask.kind,
        zero_rows=mask is not None and mask.dead is not None,
    )


def check_request(declaration: Declaration, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> None:
    """Rank, lengths, heads, head dim, dtype, device and mask of one request. Raises `RequestRefused`."""
    if declaration.placement is not Placement.NONE:
        raise RequestRefused("placement", "none, for a call without a process group", declaration.placement)
    for name, tensor, heads in (
        ("q", q, declaration.heads),
        ("k", k, declaration.kv_heads),
        ("v", v, declaration.kv_heads),
    ):
        _check_tensor(name, tensor, heads, declaration.head_dim)
        if tensor.dtype is not q.dtype:
            raise RequestRefused(name, f"dtype {q.dtype}, as q", tensor.dtype)
        if tensor.device != q.device:
            raise RequestRefused(name, f"device {q.device}, as q", tensor.device)
        if tensor.shape[0] != q.shape[0]:
            raise RequestRefused(name, f"batch {q.shape[0]}, as q", tensor.shape[0])
    if v.shape[1] != k.shape[1]:
        raise RequestRefused("v", f"length {k.shape[1]}, as k", v.shape[1])
    if mask is not None:
        _check_mask(declaration, q, k, mask)


def _check_tensor(name: str, tensor: Tensor, heads: int, head_dim: int) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise RequestRefused(name, "a tensor", type(tensor).__name__)
    if tensor.ndim != 4:
        raise RequestRefused(
            name, "rank 4, [batch, sequence, heads, head dim]", f"shape {tuple(tensor.shape)}"
        )
    if not tensor.dtype.is_floating_point:
        raise RequestRefused(name, "a floating dtype", tensor.dtype)
    if tensor.shape[0] < 1 or tensor.shape[1] < 1:
        raise RequestRefused(name, "at least one row and one token", f"shape {tuple(tensor.shape)}")
    if tensor.shape[2] != heads:
        raise RequestRefused(name, f"{heads} heads", tensor.shape[2])
    if tensor.shape[3] != head_dim:
        raise RequestRefused(name, f"head dim {head_dim}", tensor.shape[3])


def _check_mask(declaration: Declaration, q: Tensor, k: Tensor, mask: Mask) -> None:
    if not isinstance(mask, Mask):
        raise RequestRefused("mask", "a mask made by build_mask", type(mask).__name__)
    wanted = (q.shape[0], q.shape[1], k.shape[1])
    if (mask.batch, mask.query_length, mask.kv_length) != wanted:
        came = (mask.batch, mask.query_length, mask.kv_length)
        raise RequestRefused("mask", f"(batch, queries, keys) {wanted}", came)
    if mask.device != q.device:
        raise RequestRefused("mask", f"device {q.device}, as q", mask.device)
    if mask.causal != declaration.causal:
        raise RequestRefused("mask", f"causal={declaration.causal}, as declared", f"causal={mask.causal}")
    if mask.pair is not None and mask.pair.shape[1] not in (1, declaration.heads):
        raise RequestRefused("mask", f"1 or {declaration.heads} heads", mask.pair.shape[1])
