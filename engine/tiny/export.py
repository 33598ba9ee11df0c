"""Writes the checkpoint folder that is served: weights in fp16, configs, words, scenes.

`python -m engine.tiny.export runs/decoder/decoder.pt runs/world/state.pt checkpoints/tiny`
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save_file

from engine.camera.intrinsics import REFERENCE_HEIGHT, REFERENCE_WIDTH
from engine.camera.session_rays import SessionRays
from engine.codec.streaming import save_tiny_codec
from engine.codec.tiny import TinyCodec
from engine.sampler.schedule import Schedule, Step
from engine.text.words import WordTable
from engine.tiny.latents import load_codec
from engine.tiny.places import PLACES, Place, Spawn
from engine.tiny.render import FOCAL, HEIGHT, WIDTH, render
from engine.tiny.train_world import TEXT_DIM, config_of
from engine.tiny.walks import poses_of, stance_of
from engine.tiny.watch import SIGMAS
from engine.tiny.words import WORDS

FPS = 16
DESCRIPTION = (
    "A tiny world of three small places (meadow, desert, neon night), learned by heart from a renderer. "
    "It continues an uploaded picture as well as it can, which is not well: it has seen nothing else."
)


def export(codec: Path, state: Path, folder: Path) -> None:
    """Write the checkpoint: `codec` as `train_decoder` left it, the average of `train_world`'s `state`."""
    export_codec(codec, folder / "vae")
    export_transformer(state, folder / "transformer")
    WordTable.create(WORDS, TEXT_DIM).save(folder / "text_encoder")
    schedule = Schedule(tuple(Step(1000 * sigma, sigma) for sigma in SIGMAS), "sample")
    write_json(folder / "scheduler" / "scheduler_config.json", schedule.to_json())
    write_json(folder / "model_index.json", model_index())
    export_scenes(folder)


def export_codec(codec: Path, folder: Path) -> None:
    """The codec with its latents' mean and scale."""
    trained, mean, std = load_codec(codec)
    config = replace(
        trained.config,
        latents_mean=tuple(mean.flatten().tolist()),
        latents_std=tuple(std.flatten().tolist()),
    )
    network = TinyCodec(config)
    network.load_state_dict(trained.state_dict())
    save_tiny_codec(network, folder)


def export_transformer(state: Path, folder: Path) -> None:
    """The averaged weights."""
    average = torch.load(state, weights_only=True)["average"]
    write_json(folder / "config.json", config_of(SessionRays()).to_json())
    weights = {name: tensor.half().contiguous() for name, tensor in average.items()}
    save_file(weights, folder / "diffusion_pytorch_model.safetensors")


def model_index() -> dict[str, Any]:
    """Which classes the parts are, and what a service says about them."""
    focal_x, focal_y = FOCAL * REFERENCE_WIDTH / WIDTH, FOCAL * REFERENCE_HEIGHT / HEIGHT
    return {
        "_class_name": "WorldPipeline",
        "transformer": ["worldline", "WorldTransformer"],
        "vae": ["worldline", "TinyCodec"],
        "text_encoder": ["worldline", "WordTable"],
        "scheduler": ["worldline", "WorldSchedule"],
        "worldline": {
            "name": "tiny",
            "width": WIDTH,
            "height": HEIGHT,
            "fps": FPS,
            "max_pixels": WIDTH * HEIGHT,
            "description": DESCRIPTION,
            "intrinsics": [focal_x, focal_y, REFERENCE_WIDTH / 2, REFERENCE_HEIGHT / 2],
        },
    }


def export_scenes(folder: Path) -> None:
    """Every spawn point as a scene: its first picture, and its pose in the place."""
    (folder / "scenes").mkdir(parents=True, exist_ok=True)
    scenes = [scene(folder, place, number) for place in PLACES for number in range(len(place.spawns))]
    write_json(folder / "scenes.json", scenes)


def scene(folder: Path, place: Place, number: int) -> dict[str, Any]:
    """One entry of scenes.json; draws its picture."""
    origin = origin_of(place.spawns[number])
    name = f"{place.name}-{number + 1}"
    Image.fromarray(render(place, origin[None])[0].numpy()).save(folder / "scenes" / f"{name}.png")
    return {
        "name": name,
        "title": f"{place.title} {number + 1}",
        "prompt": place.prompt,
        "image": f"scenes/{name}.png",
        "origin": origin.tolist(),
    }


def origin_of(spawn: Spawn) -> torch.Tensor:
    """Camera-to-world [4, 4] of a spawn point, float64."""
    stance = stance_of(spawn)
    return poses_of(torch.tensor([[stance.x, stance.z, stance.azimuth, 0.0]], dtype=torch.float64).numpy())[0]


def write_json(path: Path, data: object) -> None:
    """Indented, with a line end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """See the module."""
    if len(sys.argv) != 4:
        sys.exit("usage: python -m engine.tiny.export CODEC STATE FOLDER")
    export(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))


if __name__ == "__main__":
    main()
