"""`replicated_q_sharded_kv` where the K/V heads do not divide by the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from attention.backends.base import Backend, PartialKernel
from attention.checks import Layout
from attention.declaration import Declaration, Placement
from attention.layer import needs_of
from attention.masks import Mask
from attention.placements.causal import CausalMasks
from attention.placements.combine import combine
from attention.placements.membership import join
from attention.placements.sharded import check_sharded
from attention.selection import BackendPolicy, ResolvedPath, Selector


class PartialSums:
    """Each rank attends to its keys; the parts are gathered and combined by log-sum-exp."""

    def __init__(
        self,
        declaration: Declaration,
        policy: BackendPolicy | None,
        group: ProcessGroup | None,
        backends: Mapping[str, Backend],
    ) -> None:
        self.declaration = declaration
        self.path: ResolvedPath | None = None
        self._membership = join(group)
        self._inner = replace(declaration, placement=Placement.NONE, causal=False)
        self._selector = Selector(self._inner, policy, backends)
        self._kernels: dict[tuple[object, ...], PartialKernel] = {}
        self._causal = CausalMasks()

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, layout: Layout | None = None
    ) -> Tensor:
        """Attend to the keys of all ranks.

        q [B, Sq, Hq, D], our share of k and v [B, share, Hkv, D] -> [B, Sq, Hq, D], the same on every
        rank. `layout` holds the shards of the keys, `mask` is that of the whole. A collective call. Raises
        `RequestRefused`.
        """
        shards = check_sharded(self.declaration, self._membership, q, k, v, mask, layout)
        if mask is None and self.declaration.causal:
            mask = self._causal.mask(q, q.shape[1], shards.total)
        if not shards.length:
            out, logsums = _nothing(q)
        else:
            part = None if mask is None else mask.keys(shards.start, shards.stop)
            out, logsums = self._kernel(q, k, part)(q, k, v, part)
        result = combine(*self._gather(out, logsums)).to(q.dtype).contiguous()
        if mask is not None and mask.dead is not None:
            result = result.masked_fill(mask.dead.transpose(1, 2), 0.0)
        return result

    def _kernel(self, q: Tensor, k: Tensor, mask: Mask | None) -> PartialKernel:
        key = (q.shape, k.shape, q.dtype, q.device, None if mask is None else mask.geometry)
        if key not in self._kernels:
            needs = replace(needs_of(self._inner, q, k, mask), partial=True)
            backend, self.path = self._selector.select(needs)
            self._kernels[key] = backend.bind_partial(needs)
        return self._kernels[key]

    def _gather(self, out: Tensor, logsums: Tensor) -> tuple[Tensor, Tensor]:
        """Our part -> everyone's: [R, B, Sq, H, D] and [R, B, H, Sq], in one collective call."""
        ours = torch.cat((out, logsums.transpose(1, 2).unsqueeze(-1).to(out.dtype)), dim=-1)
        parts = self._membership.gather(ours)
        return parts[..., :-1], parts[..., -1].transpose(-1, -2)


def _nothing(q: Tensor) -> tuple[Tensor, Tensor]:
    """The part of a rank without keys."""
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    b, s, h, _ = q.shape
    return q.new_zeros(q.shape, dtype=wide), q.new_full((b, h, s), -torch.inf, dtype=wide)
