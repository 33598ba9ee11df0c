"""A small random LingBot checkpoint that vLLM-Omni and Worldline both load."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import load_file, save_file

from tests.engine.lingbot.published_layout import CLASSES, CONFIG, HEIGHT, WIDTH, write_json, write_published

SCHEDULER = {
    "_class_name": "UniPCMultistepScheduler",
    "num_train_timesteps": 1000,
    "prediction_type": "flow_prediction",
    "predict_x0": True,
    "use_flow_sigmas": True,
    "use_dynamic_shifting": False,
    "use_beta_sigmas": False,
    "use_exponential_sigmas": False,
    "use_karras_sigmas": False,
    "final_sigmas_type": "zero",
    "timestep_spacing": "linspace",
    "flow_shift": 5.0,
}


def write_lingbot(folder: Path) -> Path:
    """The same bytes with every version of the libraries that write it."""
    write_published(folder)
    for file in folder.glob("*/*.safetensors"):
        save_file({name: settled(name, one) for name, one in load_file(file).items()}, file, {"format": "pt"})
    card = {"name": "recorded", "width": WIDTH, "height": HEIGHT}
    classes = {**CLASSES, "transformer": ["diffusers", "CausalLingBotWorldTransformer3DModel"]}
    write_json(
        folder / "model_index.json",
        {"_class_name": "LingBotWorldCausalDMDPipeline", **classes, "worldline": card},
    )
    write_json(folder / "scheduler" / "scheduler_config.json", SCHEDULER)
    config = {**CONFIG.to_json(), "_class_name": "CausalLingBotWorldTransformer3DModel"}
    write_json(folder / "transformer" / "config.json", config)
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "meadow.png")
    scene = {"name": "meadow", "title": "Meadow", "prompt": "a meadow", "image": "meadow.png"}
    (folder / "scenes.json").write_text(json.dumps([scene]))
    return folder


def settled(name: str, like: NDArray[np.float32]) -> NDArray[np.float32]:
    """Noise that follows from the parameter's name and shape alone: of a norm about 1, of a bias about 0."""
    noise = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(like.shape)
    inputs = math.prod(like.shape[1:])
    if inputs > 1:
        return (noise / math.sqrt(inputs)).astype(np.float32)
    return (0.1 * noise + (0.0 if name.endswith("bias") else 1.0)).astype(np.float32)
