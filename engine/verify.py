"""Recompute golden files through the classes that serve, and say how far off they are.

The form of the files is described in the README of the goldens: `PREFIX.json` beside `PREFIX.safetensors`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor

from engine.camera.algebra import IDENTITY
from engine.camera.integrate import Camera
from engine.camera.intrinsics import at_size
from engine.camera.motion import Lens, Path, follow
from engine.camera.rays import Scaling, ray_embedding
from engine.checkpoint.weights import NamesRefused, check_names
from engine.golden_file import (
    GoldenRefused,
    block_tensors,
    mapping,
    read_golden,
    script_of,
    size_of,
    steps_of,
    tensor_of,
    whole,
)
from engine.sampler.probes import probes
from engine.sampler.schedule import Schedule, ScheduleRefused
from engine.transformer.config import ConfigRefused, TransformerConfig
from engine.transformer.model import BlockInputs, TextKV, WorldTransformer
from engine.transformer.modulation import Modulation
from engine.transformer.serving import ServingTransformer, serving
from engine.world.caches import WorldCaches, make_caches, open_caches
from kvcache.geometry import Geometry

__all__ = ["CameraReport", "GoldenRefused", "GoldenReport", "Replay", "verify_camera", "verify_golden"]

FLOW_TOLERANCE = 1e-5
POSE_TOLERANCE = 1e-12
RAYS_TOLERANCE = 1e-6
SCALINGS: tuple[Scaling, ...] = ("unit", "max")


@dataclass(frozen=True, slots=True)
class GoldenReport:
    """Largest absolute differences over all blocks, in fp32."""

    flow_max_abs: float
    x0_max_abs: float

    @property
    def ok(self) -> bool:
        """Whether both are within the goldens' tolerance."""
        return self.flow_max_abs <= FLOW_TOLERANCE and self.x0_max_abs <= FLOW_TOLERANCE

    def json_line(self) -> str:
        """One line for a program to read; null where a difference is not finite."""
        return _line(asdict(self))


@dataclass(frozen=True, slots=True)
class CameraReport:
    """Largest absolute differences over all cases."""

    pose_max_abs: float
    rays_max_abs: float

    @property
    def ok(self) -> bool:
        """Whether both are within the goldens' tolerances."""
        return self.pose_max_abs <= POSE_TOLERANCE and self.rays_max_abs <= RAYS_TOLERANCE

    def json_line(self) -> str:
        """One line for a program to read; null where a difference is not finite."""
        return _line(asdict(self))


def verify_golden(prefix: str | FilePath) -> GoldenReport:
    """Recompute a world transformer's file. Raises `GoldenRefused`."""
    try:
        return Replay(*read_golden(FilePath(prefix))).report()
    except (GoldenRefused, ConfigRefused, NamesRefused, ScheduleRefused) as error:
        raise GoldenRefused(f"{prefix}: {error}") from None


def verify_camera(prefix: str | FilePath) -> CameraReport:
    """Recompute a camera's file. Raises `GoldenRefused`."""
    pose, rays = 0.0, 0.0
    try:
        cases, tensors = read_golden(FilePath(prefix))
        for name in cases:
            of_poses, of_rays = _camera_case(name, script_of(cases, name), tensors)
            pose, rays = _larger(pose, of_poses), _larger(rays, of_rays)
    except GoldenRefused as error:
        raise GoldenRefused(f"{prefix}: {error}") from None
    return CameraReport(pose, rays)


class Replay:
    """One golden file, played block by block through the serving path's own parts."""

    def __init__(self, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.schedule = Schedule(steps_of(meta))
        self.blocks, self.start = whole(meta, "blocks", 1), whole(meta, "start_frame", 0)
        self.transformer = _transformer(meta, tensors)
        self.config = self.transformer.config
        self.height, self.width = whole(meta, "height", 1), whole(meta, "width", 1)
        self.flow_error = 0.0
        self.x0_error = 0.0

    @torch.inference_mode()
    def report(self) -> GoldenReport:
        """Play all blocks."""
        times = [self._time(step.timestep) for step in self.schedule.steps]
        text = tensor_of(self.tensors, "text", 1, None, self.config.text_dim)
        projected = self.transformer.text(text.to(torch.float32))
        caches = open_caches("golden", _geometry(self.config, self.height, self.width), make_caches())
        for block in range(self.blocks):
            self._play(block, times, projected, caches)
        caches.close()
        return GoldenReport(self.flow_error, self.x0_error)

    def _play(self, block: int, times: list[Modulation], text: TextKV, caches: WorldCaches) -> None:
        stored = block_tensors(self.tensors, block, self.config, len(times), self.height, self.width)
        inputs = self._inputs(block, stored)
        slots = caches.begin()
        noise = iter(torch.split(stored["noise"], 1))

        def predict(number: int, noisy: Tensor) -> Tensor:
            out = self.transformer.forward(noisy, times[number], inputs, text, slots)
            self.flow_error = _larger(self.flow_error, _distance(out[0], stored["flow"][number]))
            return out

        *_, clean = probes(self.schedule, lambda: next(noise), predict)
        self.x0_error = _larger(self.x0_error, _distance(clean, stored["x0"]))
        committed = self.transformer.forward(clean, self._time(0.0), inputs, text, slots)
        self.flow_error = _larger(self.flow_error, _distance(committed[0], stored["flow"][len(times)]))
        caches.view.commit()

    def _inputs(self, block: int, stored: Mapping[str, Tensor]) -> BlockInputs:
        frames = self.config.num_frames_per_block
        first = self.start + block * frames
        return self.transformer.block(
            stored["condition"], stored["camera"], torch.arange(first, first + frames)
        )

    def _time(self, timestep: float) -> Modulation:
        return self.transformer.time(torch.tensor(timestep, dtype=torch.float64))


def _transformer(
    meta: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> ServingTransformer | WorldTransformer:
    data = dict(mapping(meta, "model"))
    data["sink_size"] = meta.get("sink_frames", data.get("sink_size"))
    data["sliding_window_num_frames"] = meta.get("window_frames_total", data.get("sliding_window_num_frames"))
    transformer = WorldTransformer(TransformerConfig.from_json(data))
    head = "weights/"
    weights = {
        name.removeprefix(head): tensor_of(tensors, name, *tensors[name].shape)
        for name in tensors
        if name.startswith(head)
    }
    wanted = {name: tuple(tensor.shape) for name, tensor in transformer.state_dict().items()}
    check_names(wanted, {name: tuple(tensor.shape) for name, tensor in weights.items()}, "weights")
    transformer.load_state_dict(weights)
    return serving(transformer)


def _geometry(config: TransformerConfig, height: int, width: int) -> Geometry:
    _, ph, pw = config.patch_size
    for name, size, patch in (("height", height, ph), ("width", width, pw)):
        if size % patch:
            raise GoldenRefused(f"{name}: expected a multiple of the patch, {patch}, got {size}")
    return Geometry(
        layers=config.num_layers,
        kv_heads=config.num_attention_heads,
        head_dim=config.attention_head_dim,
        dtype="float32",
        tokens_per_frame=(height // ph) * (width // pw),
        sink_frames=config.sink_size,
        window_frames=config.sliding_window_num_frames - config.sink_size,
        frames_per_block=config.num_frames_per_block,
    )


def _camera_case(
    name: str, script: list[frozenset[str]], tensors: Mapping[str, Tensor]
) -> tuple[float, float]:
    width, height = size_of(name)
    reference = tensor_of(tensors, f"{name}/intrinsics_at_832x480", 4)
    expected_poses = tensor_of(tensors, f"{name}/poses", len(script), 4, 4)
    lens = Lens(width, height, at_size(reference.tolist(), width, height))
    path = follow(Camera(), [{"keys": sorted(keys)} for keys in script], lens)
    of_poses = _distance(torch.tensor(path.poses, dtype=torch.float64), expected_poses)
    of_rays = 0.0
    for scaling in SCALINGS:
        stored = f"{name}/rays_{scaling}"
        if stored in tensors:
            frames = max(3, *tensors[stored].shape[2:3])  # as recorded: often the first block alone
            rays = _rays_by_block(path, lens, scaling)[:, :, :frames, ::3, ::5]
            expected = tensor_of(tensors, stored, *rays.shape)
            of_rays = _larger(of_rays, _distance(rays, expected))
    return of_poses, of_rays


def _rays_by_block(path: Path, lens: Lens, scaling: Scaling) -> Tensor:
    """Blocks of three latent frames, each with the pose before it as anchor: [1, 384, F, H/8, W/8]."""
    chain = (IDENTITY, *path.poses)
    blocks = [
        ray_embedding(
            chain[i], chain[i + 1 : i + 4], path.intrinsics[i : i + 3], lens.width, lens.height, scaling
        )
        for i in range(0, len(path.poses), 3)
    ]
    return torch.cat(blocks, dim=2)


def _line(differences: Mapping[str, float]) -> str:
    finite = {name: one if math.isfinite(one) else None for name, one in differences.items()}
    return json.dumps(finite, allow_nan=False)


def _distance(came: Tensor, expected: Tensor) -> float:
    return float((came.double() - expected.double()).abs().max())


def _larger(a: float, b: float) -> float:
    """The larger one, where NaN is the largest of all."""
    return b if b != b or b > a else a
