"""A model's own attention, as it would be written without the contract: plain torch calls."""

from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def direct(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """BSND, in one process."""
    out = scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    return out.transpose(1, 2)


def bounds(total: int) -> list[tuple[int, int]]:
    """An even share per rank; earlier ranks take the rest."""
    share, rest = divmod(total, dist.get_world_size())
    edges = [0]
    for rank in range(dist.get_world_size()):
        edges.append(edges[-1] + share + (rank < rest))
    return list(pairwise(edges))


def gather(part: Tensor, lengths: list[int]) -> Tensor:
    """Parts [B, share, ...] of all ranks, one after another; padded on the way, as shares differ."""
    padded = part.new_zeros(part.shape[0], max(lengths), *part.shape[2:])
    padded[:, : part.shape[1]] = part
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)
    return torch.cat([one[:, :n] for one, n in zip(parts, lengths, strict=True)], dim=1)


def direct_by_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each rank attends with its share of the queries."""
    shares = bounds(q.shape[1])
    start, stop = shares[dist.get_rank()]
    return gather(direct(q[:, start:stop], k, v), [b - a for a, b in shares])


def direct_by_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each rank holds a share of the keys, and attends with its heads to all of them."""
    shares = bounds(k.shape[1])
    start, stop = shares[dist.get_rank()]
    k, v = (gather(tensor[:, start:stop].contiguous(), [b - a for a, b in shares]) for tensor in (k, v))
    first, last = bounds(q.shape[2])[dist.get_rank()]
    out = direct(q[:, :, first:last], k[:, :, first:last], v[:, :, first:last]).contiguous()
    parts = [torch.empty_like(out) for _ in shares]
    dist.all_gather(parts, out)
    return torch.cat(parts, dim=2)


def direct_by_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each rank attends to its share of the keys; the parts are weighed by their share of the softmax."""
    start, stop = bounds(k.shape[1])[dist.get_rank()]
    out, logsum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q.transpose(1, 2), k[:, start:stop].transpose(1, 2), v[:, start:stop].transpose(1, 2)
    )
    outs = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    logsums = [torch.empty_like(logsum) for _ in outs]
    dist.all_gather(outs, out.contiguous())
    dist.all_gather(logsums, logsum.contiguous())
    shares = torch.stack(logsums).sub(torch.stack(logsums).amax(0)).exp()
    shares = shares / shares.sum(0)
    return (torch.stack(outs) * shares.unsqueeze(-1)).sum(0).transpose(1, 2).contiguous()
