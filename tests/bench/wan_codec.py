"""Streaming decode of the Wan autoencoder against diffusers, called plainly on each block's latents.

A small configuration of random weights, one thread. Both sides alternate; times are the thread's own
processor time, so that other work on the machine counts little. Needs the extra `lingbot`.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

WIDTH, HEIGHT = 160, 96
BLOCK = 3  # latent frames
ROUNDS = 7
TARGET = 3.0


def milliseconds(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1000


def main() -> None:
    """Print one JSON line."""
    try:
        from diffusers import AutoencoderKLWan
    except ModuleNotFoundError:
        skipped = {"bench": "wan_codec", "skipped": "needs the extra lingbot: pip install -e '.[lingbot]'"}
        sys.stdout.write(json.dumps(skipped) + "\n")
        return
    from engine.codec.wan import wan_codec

    torch.set_num_threads(1)
    torch.manual_seed(0)
    vae = AutoencoderKLWan(base_dim=16, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=1).eval()
    codec = wan_codec(vae)
    latents = torch.randn(1, 16, BLOCK, HEIGHT // 8, WIDTH // 8)
    _, history = codec.decode(latents)

    def plain() -> Tensor:
        with torch.inference_mode():
            return vae.decode(latents, return_dict=False)[0]

    ours, theirs = [], []
    for _ in range(ROUNDS + 1):
        ours.append(milliseconds(lambda: codec.decode(latents, history)))
        theirs.append(milliseconds(plain))
    streaming, diffusers = statistics.median(ours[1:]), statistics.median(theirs[1:])
    figures = {
        "bench": "wan_codec",
        "streaming_ms": round(streaming, 1),  # 12 frames, as they follow on
        "diffusers_ms": round(diffusers, 1),  # 9 frames, as if the video began
        "times_faster": round(diffusers / streaming, 2),
        "size": [WIDTH, HEIGHT],
        "latent_frames": BLOCK,
        "base_dim": 16,
        "threads": 1,
        "rounds": ROUNDS,
        "seed": 0,
        "target": TARGET,
        "ok": diffusers / streaming >= TARGET,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
