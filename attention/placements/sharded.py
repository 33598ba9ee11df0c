"""What both ways to shard K/V ask of a request."""

from __future__ import annotations

from torch import Tensor

from attention.checks import check_mask, check_tensors
from attention.declaration import Declaration
from attention.errors import RequestRefused
from attention.masks import Mask
from attention.placements.membership import Membership
from attention.shards import Shards


def check_sharded(
    declaration: Declaration,
    membership: Membership,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    layout: object,
) -> Shards:
    """A request with sharded K/V, its mask against the whole. Raises `RequestRefused`."""
    check_tensors(declaration, q, k, v, least=0)
    if q.shape[1] < 1:
        raise RequestRefused("q", "at least 1 token", f"shape {tuple(q.shape)}")
    shards = membership.check(layout, "k", k)
    if mask is not None:
        check_mask(declaration, mask, q.shape[0], q.shape[1], shards.total, q)
    return shards
