"""How much the 14B computes for a chunk: counted over the module with tensors that have no data; nothing is
timed.

One chunk is a block's inputs, four probes and the commit pass, with full caches; without the autoencoder. The
floor is that at a device's dense bf16 peak, which no device reaches: 989 TFLOP/s of an H100 or H200 SXM, by
NVIDIA's data sheet (`PEAK_TFLOPS` for another).
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from engine.transformer.config import PRESETS
from engine.transformer.model import WorldTransformer
from engine.world.geometry import LATENT_STRIDE

PRESET = "lingbot-world-v2-14b"
SIZES = ((832, 480), (624, 352), (416, 240))
PROBES, FRAMES = 4, 3
TEXT_TOKENS = 512
VIDEO_S = 12 / 16
PEAK_TFLOPS = float(os.environ.get("PEAK_TFLOPS", "989"))


@dataclass(frozen=True)
class FullCache:
    """A layer's K/V where sink and window are full: `tokens` are seen, the block's own among them."""

    tokens: int

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """What the queries see, [B, tokens, N, hd]."""
        seen = (keys.shape[0], self.tokens, *keys.shape[2:])
        return keys.new_empty(seen), values.new_empty(seen)


def attention(q: torch.Size, k: torch.Size, v: torch.Size, *_: object, **__: object) -> int:
    """Of the call that torch makes on a CPU, which its own counter does not know."""
    return int(sdpa_flop_count(q, k, v))


ON_A_CPU = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention}


def counted(call: Callable[[], object]) -> float:
    """TFLOP; a multiplication and an addition are two."""
    with FlopCounterMode(display=False, custom_mapping=ON_A_CPU) as counter:
        call()
    return float(counter.get_total_flops()) / 1e12


@torch.no_grad()
def tflop_per_chunk(width: int, height: int) -> float:
    """Of a later chunk at this size in pixels."""
    config = PRESETS[PRESET]
    h, w = height // LATENT_STRIDE, width // LATENT_STRIDE
    inside, outside = config.out_channels, config.in_channels - config.out_channels
    with FakeTensorMode():
        model = WorldTransformer(config)
        latent, condition, rays = (
            torch.empty(1, channels, FRAMES, h, w) for channels in (inside, outside, config.camera_channels)
        )
        time = model.time(torch.tensor(0.0))
        text = model.text(torch.empty(1, TEXT_TOKENS, config.text_dim))
        inputs = model.block(condition, rays, torch.arange(FRAMES))
        per_frame = inputs.grid[1] * inputs.grid[2]
        caches = [FullCache(config.sliding_window_num_frames * per_frame)] * config.num_layers
        once = counted(lambda: model.block(condition, rays, torch.arange(FRAMES)))
        probe = counted(lambda: model.forward(latent, time, inputs, text, caches))
        commit = counted(lambda: model.write(latent, time, inputs, text, caches))
    return once + PROBES * probe + commit


def main() -> None:
    """Print one JSON line for each size."""
    for width, height in SIZES:
        tflop = tflop_per_chunk(width, height)
        floor = tflop / PEAK_TFLOPS
        figures = {
            "bench": "operations",
            "model": PRESET,
            "size": [width, height],
            "tflop_per_chunk": round(tflop, 1),
            "peak_tflops": PEAK_TFLOPS,
            "floor_s": round(floor, 2),
            "floor_rtf": round(floor / VIDEO_S, 2),
        }
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
