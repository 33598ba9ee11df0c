"""A checkpoint folder of random weights, in the layout that is served."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from engine.api import OpenWorld
from engine.codec.streaming import save_tiny_codec
from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.sampler.schedule import shifted
from engine.text.words import WordTable
from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer

WIDTH, HEIGHT = 48, 32
CONFIG = TransformerConfig(
    num_attention_heads=2,
    attention_head_dim=16,
    ffn_dim=64,
    num_layers=2,
    text_dim=8,
    freq_dim=16,
    sink_size=3,
    sliding_window_num_frames=9,
)


def write_checkpoint(folder: Path) -> Path:
    """The same bytes every time; two scenes."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    codec = TinyCodec(
        TinyCodecConfig(width=8, middle=8, fine=8, latents_mean=(0.1,) * 16, latents_std=(0.8,) * 16)
    )
    for parameter in codec.parameters():
        parameter.data.normal_(0, 0.1)
    save_tiny_codec(codec, folder / "vae")
    WordTable.create(("meadow", "desert"), CONFIG.text_dim).save(folder / "text_encoder")
    write_json(folder / "scheduler" / "scheduler_config.json", shifted((1000.0, 500.0), 5.0).to_json())
    write_json(folder / "transformer" / "config.json", CONFIG.to_json())
    save_file(
        {name: tensor.contiguous() for name, tensor in WorldTransformer(CONFIG).state_dict().items()},
        folder / "transformer" / "diffusion_pytorch_model.safetensors",
    )
    classes = {"transformer": "WorldTransformer", "vae": "TinyCodec", "text_encoder": "WordTable"}
    parts = {part: ["worldline", name] for part, name in {**classes, "scheduler": "WorldSchedule"}.items()}
    write_json(
        folder / "model_index.json",
        {**parts, "worldline": {"name": "small", "width": WIDTH, "height": HEIGHT}},
    )
    write_json(
        folder / "scenes.json", [scene(folder, name, n) for n, name in enumerate(("meadow", "desert"))]
    )
    return folder


def scene(folder: Path, name: str, seed: int) -> dict[str, str]:
    pixels = np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / f"{name}.png")
    return {"name": name, "title": name.title(), "prompt": f"a {name}", "image": f"{name}.png"}


def write_json(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def request(world: str = "w", **changes: object) -> OpenWorld:
    """Ask for a world of a written checkpoint."""
    base = OpenWorld(world, "a meadow", WIDTH, HEIGHT, 16, 3, scene="meadow")
    return replace(base, **changes)  # type: ignore[arg-type]
