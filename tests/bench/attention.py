"""The attention contract beside direct calls of `scaled_dot_product_attention`, in the same run.

python -m tests.bench attention
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attention.declaration import Computation, Declaration
from attention.layer import Attention
from attention.masks import build_mask

Call = Callable[[], Tensor]


def emit(**figures: object) -> None:
    """One JSON line."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def timed(call: Call, times: int) -> float:
    """Microseconds of CPU time of this thread per call: other work on the machine does not count."""
    start = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - start) / times * 1e6


def interleaved(calls: dict[str, Call], times: int, rounds: int) -> dict[str, list[float]]:
    """Times of all calls in turns, forwards and backwards (A B B A), after a discarded first round."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name in list(calls)[:: 1 if number % 2 else -1]:
            found[name].append(timed(calls[name], times))
    return {name: values[1:] for name, values in found.items()}


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Median of the ratios of the pairs."""
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 4)


def difference(ours: list[float], theirs: list[float]) -> float:
    """Median of the differences of the pairs."""
    return round(statistics.median(a - b for a, b in zip(ours, theirs, strict=True)), 2)


def tensors(queries: int, keys: int, heads: int, head_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """BSND: the queries in memory as a projection leaves them, K/V heads first, as the view keeps them."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn((1, queries, heads, head_dim), generator=generator)
    k, v = (torch.randn((1, heads, keys, head_dim), generator=generator).transpose(1, 2) for _ in "kv")
    return q, k, v


def direct(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """What a model would write: BSND in and out."""
    return sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=bias).transpose(1, 2)


def compare(name: str, masked: bool, sizes: tuple[int, int, int, int], times: int, pairs: int) -> None:
    """One line: contract against direct call, with the same tensors and the same mask.

    `noise_ratio` is the direct call against itself. `over_bare_us` is over a call that has its tensors
    transposed beforehand.
    """
    queries, keys, heads, head_dim = sizes
    q, k, v = tensors(*sizes)
    bare = tuple(tensor.transpose(1, 2) for tensor in (q, k, v))
    attend = Attention(Declaration(Computation.CROSS, "bench", heads, heads, head_dim))
    valid = torch.rand(1, keys, generator=torch.Generator().manual_seed(1)) < 0.8
    mask = build_mask(batch=1, query_length=queries, kv_length=keys, kv_valid=valid) if masked else None
    bias = valid[:, None, None, :] if masked else None
    assert torch.equal(attend(q, k, v, mask), direct(q, k, v, bias))
    calls = {
        "contract": lambda: attend(q, k, v, mask),
        "direct": lambda: direct(q, k, v, bias),
        "again": lambda: direct(q, k, v, bias),
        "bare": lambda: sdpa(*bare, attn_mask=bias),
    }
    times_of = interleaved(calls, times, pairs)
    emit(
        bench=name,
        contract_us=round(statistics.median(times_of["contract"]), 2),
        sdpa_us=round(statistics.median(times_of["direct"]), 2),
        ratio=ratio(times_of["contract"], times_of["direct"]),
        noise_ratio=ratio(times_of["again"], times_of["direct"]),
        over_direct_us=difference(times_of["contract"], times_of["direct"]),
        over_bare_us=difference(times_of["contract"], times_of["bare"]),
        pairs=pairs,
        threads=torch.get_num_threads(),
        geometry={"q": queries, "kv": keys, "heads": heads, "head_dim": head_dim},
    )


@torch.inference_mode()
def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    for masked, suffix in ((False, ""), (True, " with a kv mask")):
        compare(f"attention{suffix}", masked, (180, 1080, 8, 64), times=1, pairs=300)
        compare(f"attention{suffix}, overhead of a call", masked, (4, 4, 2, 8), times=1000, pairs=15)


if __name__ == "__main__":
    main()
