"""Illegal packings and placements, and backends that were chosen and can't serve."""

import pytest
import torch
from asked import call, declare, mask_of, refused, tensors

from attention.backends import BACKENDS
from attention.backends.sdpa import SdpaBackend
from attention.capabilities import Capabilities
from attention.declaration import Computation, Placement
from attention.entry import build_attention
from attention.errors import BackendRefused, BackendUnavailable, RequestRefused
from attention.layer import Attention
from attention.packing import Packing, pack_cross, pack_self
from attention.selection import BackendPolicy
from attention.shards import Shards

torch.set_num_threads(1)

CANT = "attention backend 'narrow' can't serve this request: it lacks "


class WithoutGroups(SdpaBackend):
    name = "narrow"
    capabilities = Capabilities(
        dtypes=frozenset({torch.float32}),
        devices=frozenset({"cpu"}),
        grouped_queries=False,
        mask_kinds=frozenset({"kv_valid"}),
        max_head_dim=64,
        head_dim_multiple=8,
    )


NARROW = {**BACKENDS, "narrow": WithoutGroups()}


def narrow(mask=None, layout=None, dtype=torch.float32, **changes):
    declaration = declare(**{"kv_heads": 4, **changes})
    attend = Attention(declaration, BackendPolicy(default="narrow"), NARROW)
    ready = tensors(kv_heads=declaration.kv_heads, head_dim=declaration.head_dim, dtype=dtype)
    if layout is not None:
        ready = tuple(tensor[:1, :3] for tensor in ready)
    return attend(*ready, mask, layout)


ROWS = [
    # packing
    (
        "boundaries from 1",
        RequestRefused,
        lambda: pack_self([1, 3]),
        "boundaries: expected rising integers that start at 0, at least two, got [1, 3]",
    ),
    (
        "one boundary",
        RequestRefused,
        lambda: pack_self([0]),
        "boundaries: expected rising integers that start at 0, at least two, got [0]",
    ),
    (
        "empty document",
        RequestRefused,
        lambda: pack_self([0, 2, 2]),
        "boundaries: expected rising integers that start at 0, at least two, got [0, 2, 2]",
    ),
    (
        "fractional boundaries",
        RequestRefused,
        lambda: pack_cross([0, 2.0], [0, 2], [0]),
        "q_boundaries: expected rising integers that start at 0, at least two, got [0, 2.0]",
    ),
    (
        "boundaries as a matrix",
        RequestRefused,
        lambda: pack_self(torch.zeros(2, 2)),
        "boundaries: expected a vector of integers, got torch.float32 of shape (2, 2)",
    ),
    (
        "document map length",
        RequestRefused,
        lambda: pack_cross([0, 2, 4], [0, 2], [0]),
        "document_map: expected 2 entries, one per query document, got 1 entries",
    ),
    (
        "document map entry",
        RequestRefused,
        lambda: pack_cross([0, 2], [0, 2], [1]),
        "document_map: expected None or a K/V document below 1, got 1",
    ),
    (
        "packing without proof",
        RequestRefused,
        lambda: Packing(Computation.SELF, 1, 1, (), 0),
        "layout: expected a packing made by pack_self or pack_cross, got int",
    ),
    (
        "packing of the other kind",
        RequestRefused,
        lambda: call(layout=pack_cross([0, 3], [0, 5], [0])),
        "layout: expected a packing for self attention, got one for cross",
    ),
    (
        "packed batch",
        RequestRefused,
        lambda: call(*tensors(keys=3), layout=pack_self([0, 3])),
        "layout: expected (batch, queries, keys) (1, 3, 3), as packed, got (2, 3, 3)",
    ),
    (
        "mask beside a packing",
        RequestRefused,
        lambda: call(*tensors(1, 3, 3), mask_of(batch=1, kv_length=3), pack_self([0, 3])),
        "mask: expected None beside a packing (build_mask takes one in), got a mask",
    ),
    (
        "layout of another kind",
        RequestRefused,
        lambda: call(layout=[0, 3]),
        "layout: expected a packing or None, got list",
    ),
    # placements, as far as they need no group
    (
        "shards without placement",
        RequestRefused,
        lambda: call(layout=Shards((3,), 0)),
        "layout: expected no shards for placement none, got shards",
    ),
    (
        "placement without group",
        RequestRefused,
        lambda: build_attention(declare(placement=Placement.LOCAL_Q_REPLICATED_KV)),
        "group: expected an initialized process group, for a placement, got none",
    ),
    (
        "placement in the plain layer",
        RequestRefused,
        lambda: Attention(declare(placement=Placement.LOCAL_Q_REPLICATED_KV)),
        "placement: expected none, without a process group, got local_q_replicated_kv",
    ),
    (
        "shard lengths",
        RequestRefused,
        lambda: Shards((3, -1), 0),
        "lengths: expected a tuple of non-negative integers, one above 0, got (3, -1)",
    ),
    (
        "nothing to shard",
        RequestRefused,
        lambda: Shards((0, 0), 0),
        "lengths: expected a tuple of non-negative integers, one above 0, got (0, 0)",
    ),
    ("shard rank", RequestRefused, lambda: Shards((3, 1), 2), "rank: expected an integer from 0 to 1, got 2"),
    # backends chosen by name
    (
        "unknown backend",
        BackendUnavailable,
        lambda: call(policy=BackendPolicy(default="flash3")),
        "attention backend 'flash3' can't serve this request: "
        "there is none of that name (there are math, sdpa, flash)",
    ),
    (
        "grouped queries",
        BackendRefused,
        lambda: narrow(kv_heads=2),
        CANT + "grouped queries (4 query heads on 2 K/V heads)",
    ),
    (
        "large heads",
        BackendRefused,
        lambda: narrow(head_dim=128),
        CANT + "head dim 128 (at most 64)",
    ),
    (
        "odd heads",
        BackendRefused,
        lambda: narrow(head_dim=12),
        CANT + "head dim 12 (multiples of 8)",
    ),
    (
        "backend's dtypes",
        BackendRefused,
        lambda: narrow(dtype=torch.float64),
        CANT + "dtype torch.float64 (it has torch.float32)",
    ),
    (
        "backend's devices",
        BackendRefused,
        lambda: call(*tensors(device="meta"), policy=BackendPolicy(default="sdpa")),
        "attention backend 'sdpa' can't serve this request: it lacks device meta (it has cpu, cuda)",
    ),
    (
        "backend's masks",
        BackendRefused,
        lambda: narrow(mask=mask_of(pair=torch.zeros(1, 1, 3, 5))),
        CANT + "masks of kind pair_additive",
    ),
    (
        "backend's packing",
        BackendRefused,
        lambda: narrow(layout=pack_self([0, 3])),
        CANT + "packed sequences",
    ),
]


@pytest.mark.parametrize(
    ("error", "request_", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_an_illegal_layout_or_backend_is_told_what_came_and_what_was_expected(
    error, request_, message
) -> None:
    refused(error, request_, message)
