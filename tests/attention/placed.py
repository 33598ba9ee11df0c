"""Attention calls over the ranks of a group beside the same calls in one process. Runs on every rank."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor

from attention.declaration import Computation, Declaration, Placement
from attention.entry import build_attention
from attention.errors import AttentionError
from attention.layer import Attention
from attention.masks import Mask, build_mask
from attention.packing import pack_cross, pack_self
from attention.selection import BackendPolicy
from attention.shards import Shards, agree_shards, even_shards

BATCH, QUERIES, KEYS, HEAD_DIM = 2, 11, 13, 16
CASES = ((8, 4, "sdpa"), (6, 2, "sdpa"), (3, 3, "sdpa"), (6, 2, "math"), (5, 1, "math"))
"""Query heads, K/V heads and backend: some divide by 2 and by 4 ranks, some by neither."""


def rand(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def coins(*shape: int, seed: int, share: float = 0.6) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def mask_kinds(heads: int) -> dict[str, Mask | None]:
    """Global masks, each with rows that see nothing, some with ranks that see nothing."""
    sizes = {"batch": BATCH, "heads": heads, "query_length": QUERIES, "kv_length": KEYS}
    late = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    late[:, -2:] = True
    sparse = coins(BATCH, heads, QUERIES, KEYS, seed=3, share=0.2)
    sparse[0, 0, 4] = False
    additive = rand(1, heads, QUERIES, KEYS, seed=4).masked_fill(~sparse[:1], -torch.inf)
    valid = coins(BATCH, QUERIES, seed=5)
    return {
        "none": None,
        "only the last keys": build_mask(**sizes, kv_valid=late),
        "no key at all": build_mask(**sizes, kv_valid=late & False),
        "keys and queries": build_mask(**sizes, kv_valid=coins(BATCH, KEYS, seed=6), q_valid=valid),
        "pairs by head": build_mask(**sizes, pair=sparse, q_valid=valid),
        "additive by head": build_mask(**sizes, pair=additive, kv_valid=coins(BATCH, KEYS, seed=7)),
        "additive for all": build_mask(**sizes, pair=rand(1, 1, 1, KEYS, seed=8)),
    }


def shares(total: int) -> dict[str, Shards]:
    """Equal where it can be, unequal, and with a rank that has nothing."""
    world, rank = dist.get_world_size(), dist.get_rank()
    unequal = [1 + i for i in range(world)]
    unequal[-1] += total - sum(unequal)
    empty = [0] * world
    empty[world // 2 :] = even_shards(total, world - world // 2, 0).lengths
    return {
        "even": even_shards(total, world, rank),
        "unequal": agree_shards(unequal[rank]),
        "empty": Shards(tuple(empty), rank),
    }


def calls() -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, what this rank got, and its part of what one process gets."""
    for heads, kv_heads, backend in CASES:
        q = rand(BATCH, QUERIES, heads, HEAD_DIM, seed=0)
        k, v = (rand(BATCH, KEYS, kv_heads, HEAD_DIM, seed=seed) for seed in (1, 2))
        declaration = Declaration(Computation.CROSS, "placed", heads, kv_heads, HEAD_DIM)
        for kind, mask in mask_kinds(heads).items():
            yield from _placed(f"{heads}/{kv_heads} {backend}, {kind}", declaration, backend, q, k, v, mask)
        yield from _joint(
            f"{heads}/{kv_heads} {backend}", replace(declaration, computation=Computation.SELF), backend
        )


def _joint(name: str, declaration: Declaration, backend: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Self-attention: causal with equal and unequal lengths, and documents."""
    q = rand(1, QUERIES, declaration.heads, HEAD_DIM, seed=0)
    k, v = (rand(1, QUERIES, declaration.kv_heads, HEAD_DIM, seed=seed) for seed in (1, 2))
    causal = replace(declaration, causal=True)
    yield from _placed(f"{name}, causal", causal, backend, q, k, v, None)
    yield from _placed(f"{name}, causal with fewer keys", causal, backend, q, k[:, :7], v[:, :7], None)
    sizes = {"batch": 1, "query_length": QUERIES, "kv_length": QUERIES}
    mask = build_mask(**sizes, causal=True, kv_valid=coins(1, QUERIES, seed=9))
    yield from _placed(f"{name}, causal with a mask", causal, backend, q, k, v, mask)
    documents = build_mask(**sizes, packing=pack_self([0, 3, 4, QUERIES]))
    yield from _placed(f"{name}, documents", declaration, backend, q, k, v, documents)


def _placed(
    name: str, declaration: Declaration, backend: str, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None
) -> Iterator[tuple[str, Tensor, Tensor]]:
    policy = BackendPolicy(default=backend)
    whole = Attention(declaration, policy)(q, k, v, mask)
    local = build_attention(replace(declaration, placement=Placement.LOCAL_Q_REPLICATED_KV), policy)
    for share, lie in shares(q.shape[1]).items():
        rows = slice(lie.start, lie.stop)
        yield f"local q: {name}, {share}", local(q[:, rows], k, v, mask, lie), whole[:, rows]
    sharded = build_attention(replace(declaration, placement=Placement.REPLICATED_Q_SHARDED_KV), policy)
    for share, lie in shares(k.shape[1]).items():
        keys = slice(lie.start, lie.stop)
        kind = type(sharded).__name__
        yield f"{kind}: {name}, {share}", sharded(q, k[:, keys], v[:, keys], mask, lie), whole


def compare() -> tuple[dict[str, float], list[Tensor]]:
    """The largest difference of each call (NaN counts as infinite), and what sharded keys give.

    The latter has to be the same on every rank, or replicated work drifts apart.
    """
    differences, results = {}, []
    for name, out, whole in calls():
        assert out.shape == whole.shape and out.dtype is whole.dtype, name
        assert out.is_contiguous(), name
        worst = (out - whole).abs().nan_to_num(torch.inf)
        differences[name] = float(worst.max()) if out.numel() else 0.0
        if not name.startswith("local q"):
            results.append(out)
    return differences, results


def refusals() -> dict[str, str]:
    """Illegal placed requests and what they are told; no rank gets as far as a collective call."""
    world, rank = dist.get_world_size(), dist.get_rank()
    q, k = rand(1, 4, 4, 8, seed=0), rand(1, 6, 3, 8, seed=1)
    q3, k4 = rand(1, 4, 3, 8, seed=0), rand(1, 6, 4, 8, seed=1)
    cross = Declaration(Computation.CROSS, "placed", 4, 4, 8)
    local = build_attention(replace(cross, placement=Placement.LOCAL_Q_REPLICATED_KV))
    by_heads = build_attention(replace(cross, placement=Placement.REPLICATED_Q_SHARDED_KV))
    three = replace(cross, heads=3, kv_heads=3, placement=Placement.REPLICATED_Q_SHARDED_KV)
    by_keys = build_attention(three)
    ours = even_shards(6 * world, world, rank)
    of_queries = even_shards(4 * world, world, rank)
    cut = build_mask(batch=1, query_length=4, kv_length=6)  # what one rank sees, not the whole
    requests: dict[str, Callable[[], object]] = {
        "no layout": lambda: local(q, k4, k4),
        "a packing": lambda: by_keys(q3, k, k, None, pack_cross([0, 4], [0, 6], [0])),
        "shards of another group": lambda: by_heads(q, k4, k4, None, even_shards(6, world + 1, 0)),
        "another rank's shards": lambda: by_heads(q, k4, k4, None, replace(ours, rank=(rank + 1) % world)),
        "a share of another length": lambda: by_keys(q3, k[:, :5], k[:, :5], None, ours),
        "queries of another length": lambda: local(q[:, :3], k4, k4, None, of_queries),
        "a mask that is cut already": lambda: local(q, k4, k4, cut, of_queries),
        "a mask of the shard's keys": lambda: by_keys(q3, k, k, cut, ours),
        "a mask of the heads' keys": lambda: by_heads(q, k4, k4, cut, ours),
        "no queries": lambda: by_keys(q3[:, :0], k, k, None, ours),
        "no keys": lambda: local(q, k4[:, :0], k4[:, :0], None, of_queries),
        "compressed heads": lambda: by_heads(q, k, k, None, ours),
        "a group for none": lambda: build_attention(cross, group=dist.group.WORLD),
    }
    return {name: _told(request) for name, request in requests.items()}


def _told(request: Callable[[], object]) -> str:
    try:
        request()
    except AttentionError as error:
        return str(error)
    return "nothing"


def all_of_it() -> dict[str, object]:
    """Everything that the tests ask of one group, so that it is started once."""
    differences, results = compare()
    return {"differences": differences, "results": results, "refusals": refusals()}
