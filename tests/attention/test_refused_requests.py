"""Illegal declarations, tensors and masks, and what each is told."""

import pytest
import torch
from asked import call, declare, mask_of, refused, tensors

from attention.declaration import CachePolicy, Computation
from attention.errors import MaskRefused, RequestRefused
from attention.layer import Attention
from attention.masks import Mask
from attention.packing import pack_cross

torch.set_num_threads(1)

ROWS = [
    # declarations
    (
        "computation",
        RequestRefused,
        lambda: declare(computation="joint"),
        "computation: expected one of self, cross, got 'joint'",
    ),
    (
        "computation left to be inferred",
        RequestRefused,
        lambda: declare(computation=None),
        "computation: expected one of self, cross, got None",
    ),
    (
        "placement",
        RequestRefused,
        lambda: declare(placement="ring"),
        "placement: expected one of none, local_q_replicated_kv, replicated_q_sharded_kv, got 'ring'",
    ),
    (
        "cache",
        RequestRefused,
        lambda: declare(cache="lru"),
        "cache: expected one of none, condition, history, got 'lru'",
    ),
    ("role", RequestRefused, lambda: declare(role=""), "role: expected a non-empty string, got ''"),
    ("heads", RequestRefused, lambda: declare(heads=0), "heads: expected an integer of at least 1, got 0"),
    (
        "kv_heads",
        RequestRefused,
        lambda: declare(kv_heads=1.0),
        "kv_heads: expected an integer of at least 1, got 1.0",
    ),
    (
        "head_dim",
        RequestRefused,
        lambda: declare(head_dim=True),
        "head_dim: expected an integer of at least 1, got True",
    ),
    (
        "groups",
        RequestRefused,
        lambda: declare(heads=4, kv_heads=3),
        "heads: expected a multiple of the 3 K/V heads, got 4",
    ),
    (
        "causal cross",
        RequestRefused,
        lambda: declare(computation=Computation.CROSS, causal=True),
        "causal: expected False for cross attention, got True",
    ),
    (
        "scale",
        RequestRefused,
        lambda: declare(scale=float("nan")),
        "scale: expected a positive finite number, got nan",
    ),
    # tensors
    ("no tensor", RequestRefused, lambda: call(q=[[1.0]]), "q: expected a tensor, got list"),
    (
        "rank",
        RequestRefused,
        lambda: call(q=torch.zeros(2, 3, 32)),
        "q: expected rank 4, [batch, sequence, heads, head dim], got shape (2, 3, 32)",
    ),
    (
        "integers",
        RequestRefused,
        lambda: call(q=torch.zeros(2, 3, 4, 8, dtype=torch.int64)),
        "q: expected a floating dtype, got torch.int64",
    ),
    (
        "no batch",
        RequestRefused,
        lambda: call(q=torch.zeros(0, 3, 4, 8)),
        "q: expected at least 1 row and 1 token(s), got shape (0, 3, 4, 8)",
    ),
    (
        "no keys",
        RequestRefused,
        lambda: call(k=torch.zeros(2, 0, 2, 8)),
        "k: expected at least 1 row and 1 token(s), got shape (2, 0, 2, 8)",
    ),
    ("query heads", RequestRefused, lambda: call(q=torch.zeros(2, 3, 2, 8)), "q: expected 4 heads, got 2"),
    (
        "expanded K/V heads",
        RequestRefused,
        lambda: call(k=torch.zeros(2, 5, 4, 8)),
        "k: expected 2 heads, got 4",
    ),
    (
        "head dim of a call",
        RequestRefused,
        lambda: call(v=torch.zeros(2, 5, 2, 16)),
        "v: expected head dim 8, got 16",
    ),
    (
        "dtype",
        RequestRefused,
        lambda: call(k=torch.zeros(2, 5, 2, 8, dtype=torch.float64)),
        "k: expected dtype torch.float32, as q, got torch.float64",
    ),
    (
        "device",
        RequestRefused,
        lambda: call(v=torch.zeros(2, 5, 2, 8, device="meta")),
        "v: expected device cpu, as q, got meta",
    ),
    ("batch", RequestRefused, lambda: call(k=torch.zeros(1, 5, 2, 8)), "k: expected batch 2, as q, got 1"),
    ("lengths", RequestRefused, lambda: call(v=torch.zeros(2, 4, 2, 8)), "v: expected length 5, as k, got 4"),
    # masks as they are built
    (
        "size",
        MaskRefused,
        lambda: mask_of(kv_length=0),
        "kv_length: expected an integer of at least 1, got 0",
    ),
    (
        "validity is no tensor",
        MaskRefused,
        lambda: mask_of(kv_valid=[True]),
        "kv_valid: expected a tensor, got list",
    ),
    (
        "q_valid dtype",
        MaskRefused,
        lambda: mask_of(q_valid=torch.ones(2, 3)),
        "q_valid: expected dtype bool, got torch.float32",
    ),
    (
        "kv_valid shape",
        MaskRefused,
        lambda: mask_of(kv_valid=torch.ones(2, 3, dtype=torch.bool)),
        "kv_valid: expected shape (2, 5), got (2, 3)",
    ),
    (
        "pair rank",
        MaskRefused,
        lambda: mask_of(pair=torch.ones(3, 5, dtype=torch.bool)),
        "pair: expected rank 4, broadcastable to (2, 1, 3, 5), got (3, 5)",
    ),
    (
        "pair shape",
        MaskRefused,
        lambda: mask_of(heads=4, pair=torch.zeros(2, 3, 3, 5)),
        "pair: expected rank 4, broadcastable to (2, 4, 3, 5), got (2, 3, 3, 5)",
    ),
    (
        "pair dtype",
        MaskRefused,
        lambda: mask_of(pair=torch.zeros(1, 1, 3, 5, dtype=torch.int32)),
        "pair: expected dtype bool or floating, got torch.int32",
    ),
    (
        "NaN",
        MaskRefused,
        lambda: mask_of(pair=torch.full((1, 1, 3, 5), torch.nan)),
        "pair: expected finite numbers or -inf, got NaN or +inf",
    ),
    (
        "+inf",
        MaskRefused,
        lambda: mask_of(pair=torch.full((1, 1, 1, 1), torch.inf)),
        "pair: expected finite numbers or -inf, got NaN or +inf",
    ),
    (
        "mask device",
        MaskRefused,
        lambda: mask_of(kv_valid=torch.ones(2, 5, dtype=torch.bool), device="meta"),
        "kv_valid: expected a tensor on meta, got cpu",
    ),
    (
        "mask dtype",
        MaskRefused,
        lambda: mask_of(pair=torch.zeros(1, 1, 3, 5), dtype=torch.int8),
        "dtype: expected a floating dtype, got torch.int8",
    ),
    (
        "mask of another batch's documents",
        MaskRefused,
        lambda: mask_of(packing=pack_cross([0, 3], [0, 5], [0])),
        "packing: expected (batch, queries, keys) (1, 3, 5), got (2, 3, 5)",
    ),
    (
        "mask without proof",
        MaskRefused,
        lambda: Mask(1, 1, 1, torch.device("cpu"), None, None, None, False, None, None, None, "trust me"),
        "mask: expected a mask made by build_mask, got str",
    ),
    # masks as they are used
    (
        "plain tensor as mask",
        RequestRefused,
        lambda: call(mask=torch.ones(2, 5, dtype=torch.bool)),
        "mask: expected a mask made by build_mask, got Tensor",
    ),
    (
        "mask sizes",
        RequestRefused,
        lambda: call(mask=mask_of(kv_length=4)),
        "mask: expected (batch, queries, keys) (2, 3, 5), got (2, 3, 4)",
    ),
    (
        "mask heads",
        RequestRefused,
        lambda: call(mask=mask_of(heads=2, pair=torch.zeros(1, 2, 1, 5))),
        "mask: expected 1 or 4 heads, got 2",
    ),
    (
        "mask elsewhere",
        RequestRefused,
        lambda: call(
            q=tensors(device="meta")[0],
            k=tensors(device="meta")[1],
            v=tensors(device="meta")[2],
            mask=mask_of(),
        ),
        "mask: expected device meta, as q, got cpu",
    ),
    (
        "undeclared causality",
        RequestRefused,
        lambda: call(mask=mask_of(causal=True)),
        "mask: expected causal=False, as declared, got causal=True",
    ),
    (
        "causality left out",
        RequestRefused,
        lambda: call(mask=mask_of(), declaration=declare(causal=True)),
        "mask: expected causal=True, as declared, got causal=False",
    ),
    (
        "additive in another dtype",
        RequestRefused,
        lambda: call(mask=mask_of(pair=torch.zeros(1, 1, 3, 5, dtype=torch.float64))),
        "mask: expected an additive pair in torch.float32, as q, got torch.float64",
    ),
    (
        "cross documents in self",
        RequestRefused,
        lambda: call(
            *(t[:1] for t in tensors()), mask=mask_of(batch=1, packing=pack_cross([0, 3], [0, 5], [0]))
        ),
        "mask: expected a packing for self attention, got one for cross",
    ),
]


@pytest.mark.parametrize(
    ("error", "request_", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_an_illegal_request_is_told_what_came_and_what_was_expected(error, request_, message) -> None:
    refused(error, request_, message)


def test_a_refused_request_leaves_the_layer_as_it_was() -> None:
    attend = Attention(declare())
    q, k, v = tensors()
    before = attend(q, k, v)
    with pytest.raises(RequestRefused):
        attend(q, k[:, :4], v)
    assert torch.equal(attend(q, k, v), before)


def test_the_cache_policy_is_carried_and_changes_nothing() -> None:
    q, k, v = (torch.randn_like(tensor) for tensor in tensors())
    results = []
    for policy in CachePolicy:
        attend = Attention(declare(cache=policy))
        results.append(attend(q, k, v))
        assert attend.declaration.cache is policy
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
