"""What paging and the ledger cost: a block of the tiny preset with the session's view against the same
block with one bare contiguous cache, and the ledger's share of a chunk that changes its prompt.

python -m tests.bench.caches
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.transformer.block import LayerCache
from engine.transformer.config import PRESETS
from engine.transformer.model import WorldTransformer
from engine.transformer.serving import serving
from engine.world.caches import make_caches, open_caches
from kvcache.facts import OwnerFact
from kvcache.geometry import Geometry
from kvcache.identity import Identity, Representation
from kvcache.ledger import Ledger
from kvcache.manager import CacheManager
from kvcache.memory import Memory
from kvcache.state import Entry

GRID = (4, 6)  # patches of a 64x96 picture
LENGTH = 16  # text tokens
ROUNDS, BLOCKS = 9, 6


class Contiguous:
    """The barest cache that a block can have: one buffer, the block's place and what it sees, as slices."""

    def __init__(self, keys: Tensor, values: Tensor, start: int, end: int) -> None:
        self._to = (keys[:, start:end], values[:, start:end])
        self._seen = (keys[:, :end], values[:, :end])

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self._to[0].copy_(keys)
        self._to[1].copy_(values)
        return self._seen


class Rig:
    """A random tiny transformer and one block's inputs; the same numbers whatever the cache."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.config = config = PRESETS["tiny"]
        self.transformer = serving(WorldTransformer(config))
        frames = config.num_frames_per_block
        height, width = GRID[0] * config.patch_size[1], GRID[1] * config.patch_size[2]
        self.latent = torch.randn(1, config.out_channels, frames, height, width)
        condition = torch.randn(1, config.in_channels - config.out_channels, frames, height, width)
        rays = torch.randn(1, config.camera_channels, frames, height, width)
        session = torch.randn(1, config.session_channels, frames, *GRID) if config.session_rays else None
        self.times = [self.transformer.time(torch.tensor(t)) for t in (1000.0, 937.5, 833.3, 625.0)]
        self.clean = self.transformer.time(torch.tensor(0.0))
        self.text = self.transformer.text(torch.randn(1, LENGTH, config.text_dim))
        self.block = self.transformer.block(condition, rays, torch.arange(frames), session)
        self.geometry = Geometry(
            layers=config.num_layers,
            kv_heads=config.num_attention_heads,
            head_dim=config.attention_head_dim,
            dtype="float32",
            tokens_per_frame=GRID[0] * GRID[1],
            sink_frames=config.sink_size,
            window_frames=config.sliding_window_num_frames - config.sink_size,
            frames_per_block=frames,
        )

    def run(self, caches: Sequence[LayerCache]) -> Tensor:
        """One block: the probes, then the forward that writes the clean K/V."""
        out = self.latent
        for modulation in self.times:
            out = self.transformer.forward(self.latent, modulation, self.block, self.text, caches)
        self.transformer.write(self.latent, self.clean, self.block, self.text, caches)
        return out


def paged(rig: Rig) -> Callable[[], Tensor]:
    """A block with the session's view, its pages counted, all of it governed by a ledger."""
    caches = open_caches("bench", rig.geometry, make_caches())

    def block() -> Tensor:
        out = rig.run(caches.begin())
        caches.view.commit()
        return out

    return block


def contiguous(rig: Rig) -> Callable[[], Tensor]:
    """A block with one bare buffer per layer, which fills up and is then overwritten at its end."""
    geometry, frames = rig.geometry, 0
    tokens, block_frames = geometry.tokens_per_frame, geometry.frames_per_block
    shape = (1, geometry.kv_heads, geometry.view_frames * tokens, geometry.head_dim)
    buffers = [tuple(torch.empty(shape).transpose(1, 2) for _ in range(2)) for _ in range(geometry.layers)]

    def block() -> Tensor:
        nonlocal frames
        first = min(frames, geometry.view_frames - block_frames)
        start, end = first * tokens, (first + block_frames) * tokens
        out = rig.run([Contiguous(keys, values, start, end) for keys, values in buffers])
        frames += block_frames
        return out

    return block


def seconds(run: Callable[[], Tensor], blocks: int) -> float:
    """CPU time of `blocks` blocks, each."""
    began = time.process_time()
    for _ in range(blocks):
        run()
    return (time.process_time() - began) / blocks


def measure_paging(rig: Rig) -> dict[str, object]:
    """Both ways in turn, A B B A, after the view is full."""
    ours, bare = paged(rig), contiguous(rig)
    for _ in range(rig.geometry.view_frames):
        first, second = ours(), bare()
    difference = float((first - second).abs().max())
    assert difference < 1e-4, "the outputs differ; there is nothing to time"
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(ROUNDS + 1):
        order = ("ours", "bare", "bare", "ours") if number % 2 else ("bare", "ours", "ours", "bare")
        for name in order:
            times[name].append(seconds(ours if name == "ours" else bare, BLOCKS))
    paged_s, bare_s = (statistics.median(times[name][2:]) for name in ("ours", "bare"))
    return {
        "bench": "paged view against one contiguous cache",
        "threads": torch.get_num_threads(),
        "paged_ms": round(paged_s * 1000, 3),
        "contiguous_ms": round(bare_s * 1000, 3),
        "ratio": round(paged_s / bare_s, 4),
        "max_difference": difference,
    }


class TimedLedger(Ledger):
    """Knows how long it was asked and told things."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def _append(self, fact: OwnerFact) -> None:
        began = time.process_time()
        super()._append(fact)
        self.seconds += time.process_time() - began

    def readable(self, owner: str, key: str) -> Entry | None:
        began = time.process_time()
        found = super().readable(owner, key)
        self.seconds += time.process_time() - began
        return found


def measure_ledger(rig: Rig, blocks: int = 40) -> dict[str, object]:
    """The worst a session can do: another prompt with every chunk."""
    ledger = TimedLedger()
    caches = open_caches("bench", rig.geometry, CacheManager(Memory(), ledger=ledger))
    text = rig.text[0][0]
    representation = Representation(
        rig.config.num_layers, 1, text.shape[1], text.shape[2], text.shape[3], "float32", "cpu", "BSND"
    )
    identity = Identity("text", 0, "", "transformer", "1", "", representation)
    ledger.seconds, began = 0.0, time.process_time()
    for number in range(blocks):
        prompt = replace(identity, condition_revision=str(number))
        caches.text.publish(caches.text.begin_build(prompt), rig.text)
        caches.text.lookup(prompt)
        rig.run(caches.begin())
        caches.view.commit()
    spent = time.process_time() - began
    return {
        "bench": "ledger",
        "ledger_us_per_chunk": round(ledger.seconds / blocks * 1e6, 1),
        "block_ms": round(spent / blocks * 1000, 3),
        "share": round(ledger.seconds / spent, 6),
    }


def main() -> None:
    """Two JSON lines."""
    torch.set_num_threads(1)
    with torch.inference_mode():
        rig = Rig()
        for figures in (measure_paging(rig), measure_ledger(rig)):
            sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
