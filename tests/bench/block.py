"""One block (four probes and the commit) beside its floor, in the same run.

The floor is the same linear layers and attention calls, replayed back to back on tensors that lie ready:
what is computed once per block is in it once, what is computed once per prompt or model is in neither.

python -m tests.bench.block [--golden PREFIX]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention as sdpa

from engine.transformer.block import Block
from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer
from engine.transformer.serving import serving
from engine.world.caches import make_caches, open_caches
from kvcache.geometry import Geometry

GOLDEN = Path(__file__).parents[1] / "data" / "lingbot_a"
TIMES = (1000.0, 937.5, 833.3333333333334, 625.0)
ROUNDS = 15
SHORTEST_SAMPLE_S = 0.05
Call = Callable[[], None]


@dataclass(frozen=True)
class Setting:
    """A transformer, and the size of what it is given."""

    module: WorldTransformer
    height: int  # latent pixels
    width: int
    text_length: int

    @property
    def tokens_per_frame(self) -> int:
        _, ph, pw = self.module.config.patch_size
        return self.height // ph * (self.width // pw)


def golden(prefix: Path) -> Setting:
    """The geometry and weights of a golden file."""
    meta = json.loads(prefix.with_name(prefix.name + ".json").read_text())
    tensors = load_file(prefix.with_name(prefix.name + ".safetensors"))
    model = meta["model"] | {"sink_size": meta["sink_frames"]}
    model["sliding_window_num_frames"] = meta["window_frames_total"]
    module = WorldTransformer(TransformerConfig.from_json(model))
    head = "weights/"
    module.load_state_dict({k.removeprefix(head): v for k, v in tensors.items() if k.startswith(head)})
    return Setting(module, meta["height"], meta["width"], tensors["text"].shape[1])


def wide() -> Setting:
    """dim 512, 8 heads, 8 layers, 180 tokens, sink 9, view 18."""
    config = TransformerConfig(
        num_attention_heads=8,
        attention_head_dim=64,
        ffn_dim=2048,
        num_layers=8,
        text_dim=64,
        freq_dim=64,
        sink_size=9,
        sliding_window_num_frames=18,
    )
    torch.manual_seed(0)
    return Setting(WorldTransformer(config), 12, 20, 32)


def block_of(setting: Setting) -> Call:
    """What the service computes for one block, on a full view, once per block and per forward."""
    model, config = serving(setting.module), setting.module.config
    frames = config.num_frames_per_block
    shape = (frames, setting.height, setting.width)
    geometry = Geometry(
        layers=config.num_layers,
        kv_heads=config.num_attention_heads,
        head_dim=config.attention_head_dim,
        dtype="float32",
        tokens_per_frame=setting.tokens_per_frame,
        sink_frames=config.sink_size,
        window_frames=config.sliding_window_num_frames - config.sink_size,
        frames_per_block=frames,
    )
    caches = open_caches("bench", geometry, make_caches())
    condition = torch.randn(1, config.in_channels - config.out_channels, *shape)
    rays = torch.randn(1, config.camera_channels, *shape)
    latent = torch.randn(1, config.out_channels, *shape)
    text = model.text(torch.randn(1, setting.text_length, config.text_dim))
    times = [model.time(torch.tensor(one, dtype=torch.float64)) for one in (*TIMES, 0.0)]

    def run() -> None:
        first = caches.view.frames
        block = model.block(condition, rays, torch.arange(first, first + frames))
        slots = caches.begin()
        for probe in times[:-1]:
            model.forward(latent, probe, block, text, slots)
        model.write(latent, times[-1], block, text, slots)
        caches.view.commit()

    while caches.view.frames < config.sliding_window_num_frames:
        run()
    return run


def floor_of(setting: Setting) -> Call:
    """The linear layers and attention calls of one block, and nothing between them."""
    module, config = setting.module, setting.module.config
    tokens = setting.tokens_per_frame * config.num_frames_per_block
    seen = setting.tokens_per_frame * config.sliding_window_num_frames
    heads, width = config.num_attention_heads, config.attention_head_dim
    x, hidden = torch.randn(1, tokens, config.dim), torch.randn(1, tokens, config.ffn_dim)
    patches = torch.randn(1, tokens, config.in_channels * config.patch_volume)
    rays = torch.randn(1, tokens, config.camera_channels * config.patch_volume)
    q, k, v = (torch.randn(1, heads, length, width) for length in (tokens, seen, seen))
    text_k, text_v = (torch.randn(1, heads, setting.text_length, width) for _ in "kv")
    patch_weight = module.patch_embedding.weight.flatten(1)
    layers = [layer for layer in module.blocks if isinstance(layer, Block)]

    def linear(layer: nn.Module, given: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        F.linear(given, layer.weight, layer.bias)

    def forward() -> None:
        F.linear(patches, patch_weight, module.patch_embedding.bias)
        for layer in layers:
            own, cross = layer.self_attn, layer.cross_attn
            for projection in (own.q, own.k, own.v):
                linear(projection, x)
            sdpa(q, k, v)
            linear(own.o, x)
            linear(cross.q, x)
            sdpa(q, text_k, text_v)
            linear(cross.o, x)
            linear(layer.ffn[0], x)
            linear(layer.ffn[2], hidden)
        linear(module.head.head, x)

    def run() -> None:
        linear(module.patch_embedding_wancamctrl, rays)
        linear(module.c2ws_hidden_states_layer1, x)
        linear(module.c2ws_hidden_states_layer2, x)
        for layer in layers:
            linear(layer.cam_injector_layer1, x)
            linear(layer.cam_injector_layer2, x)
            linear(layer.cam_scale_layer, x)
            linear(layer.cam_shift_layer, x)
        for _ in range(len(TIMES) + 1):
            forward()

    return run


def timed(call: Call, times: int) -> float:
    """Milliseconds of CPU time of this thread per call: other work on the machine does not count."""
    start = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - start) / times * 1e3


@torch.inference_mode()
def measure(setting: Setting, rounds: int = ROUNDS) -> dict[str, float]:
    """Medians over pairs of runs, in turns (A B B A), after a discarded first; one thread."""
    torch.set_num_threads(1)
    calls = {"block": block_of(setting), "floor": floor_of(setting)}
    times = max(1, round(SHORTEST_SAMPLE_S * 1e3 / max(timed(call, 1) for call in calls.values())))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name in list(calls)[:: 1 if number % 2 else -1]:
            found[name].append(timed(calls[name], times))
    pairs = zip(found["block"][1:], found["floor"][1:], strict=True)
    return {
        "block_ms": round(statistics.median(found["block"][1:]), 3),
        "floor_ms": round(statistics.median(found["floor"][1:]), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
    }


def main() -> None:
    """Both geometries that the project holds itself to."""
    for name, setting, rounds in (("lingbot_a", golden(GOLDEN), 31), ("dim512", wide(), 7)):
        line = {"bench": "block", "geometry": name, "threads": 1, **measure(setting, rounds)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One block beside its floor.")
    parser.add_argument(
        "--golden", type=Path, help="PREFIX of a golden file (PREFIX.json, PREFIX.safetensors)"
    )
    asked = parser.parse_args().golden
    if asked is None:
        main()
    else:
        sys.stdout.write(json.dumps(measure(golden(asked))) + "\n")
