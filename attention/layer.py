"""Attention in one process, over already projected Q, K and V."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from torch import Tensor

from attention.backends import BACKENDS
from attention.backends.base import Backend, Kernel
from attention.capabilities import Needs
from attention.checks import Layout, check_mask, check_packing, check_tensors
from attention.declaration import Declaration, Placement
from attention.errors import RequestRefused
from attention.masks import Mask
from attention.packing import Packing
from attention.selection import BackendPolicy, ResolvedPath, Selector

REMEMBERED_GEOMETRIES = 64


class Attention:
    """Executes one declared attention. Checks and backend choice happen once per geometry, not per call.

    Raises `RequestRefused` for a declared placement (those are `attention.entry.build_attention`'s), and
    `BackendRefused` where an explicit backend can't serve the declaration.
    """

    def __init__(
        self,
        declaration: Declaration,
        policy: BackendPolicy | None = None,
        backends: Mapping[str, Backend] = BACKENDS,
    ) -> None:
        if declaration.placement is not Placement.NONE:
            raise RequestRefused("placement", "none, without a process group", declaration.placement)
        self.declaration = declaration
        self.path: ResolvedPath | None = None  # the latest choice
        self._selector = Selector(declaration, policy, backends)
        self._kernels: dict[tuple[object, ...], Kernel] = {}

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, layout: Layout | None = None
    ) -> Tensor:
        """Attend.

        q [B, Sq, Hq, D], k and v [B, Skv, Hkv, D] -> [B, Sq, Hq, D], contiguous. Rows hidden by `mask` are
        zero. `layout` is a `Packing` where documents share the row. Raises `RequestRefused` naming the
        argument, `BackendRefused` where an explicit choice can't serve.
        """
        try:
            key = (
                q.shape,
                k.shape,
                v.shape,
                q.dtype,
                k.dtype,
                v.dtype,
                q.device,
                None if mask is None else mask.geometry,
                layout,
            )
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = self._bind(q, k, v, mask, layout)
            return kernel(q, k, v, mask)
        except (AttributeError, TypeError, RuntimeError) as error:
            self._explain(q, k, v, mask, layout, error)

    def _bind(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, layout: Layout | None) -> Kernel:
        self._check(q, k, v, mask, layout)
        if len(self._kernels) >= REMEMBERED_GEOMETRIES:
            self._kernels.clear()
        packing = layout if isinstance(layout, Packing) else None
        needs = needs_of(self.declaration, q, k, mask, packing)
        backend, self.path = self._selector.select(needs)
        return backend.bind(needs)

    def _check(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, layout: Layout | None) -> None:
        check_tensors(self.declaration, q, k, v)
        if layout is not None:
            check_packing(self.declaration, layout, q, k, mask)
        if mask is not None:
            check_mask(self.declaration, mask, q.shape[0], q.shape[1], k.shape[1], q)

    def _explain(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, layout: Layout | None, error: Exception
    ) -> NoReturn:
        """Refuse what has no shape, dtype or geometry, or lies elsewhere; else it was not the caller."""
        self._check(q, k, v, mask, layout)
        raise error


def needs_of(
    declaration: Declaration, q: Tensor, k: Tensor, mask: Mask | None, packing: Packing | None = None
) -> Needs:
    """The geometry of a checked request."""
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
        packing=packing,
    )
