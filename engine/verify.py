"""Recompute golden files through the classes that serve, and say how far off they are.

The form of the files is described in the README of the goldens: `PREFIX.json` beside `PREFIX.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.camera.algebra import IDENTITY
from engine.camera.integrate import Camera
from engine.camera.intrinsics import at_size
from engine.camera.motion import Lens, Path, follow
from engine.camera.rays import Scaling, ray_embedding
from engine.checkpoint.weights import NamesRefused, check_names
from engine.sampler.probes import probes
from engine.sampler.schedule import Schedule, ScheduleRefused, Step
from engine.transformer.config import ConfigRefused, TransformerConfig
from engine.transformer.model import BlockInputs, TextKV, WorldTransformer
from engine.transformer.modulation import Modulation
from engine.transformer.serving import ServingTransformer, serving
from engine.world.caches import WorldCaches, make_caches, open_caches
from kvcache.geometry import Geometry

FLOW_TOLERANCE = 1e-5
POSE_TOLERANCE = 1e-12
RAYS_TOLERANCE = 1e-6
SCALINGS: tuple[Scaling, ...] = ("unit", "max")


class GoldenRefused(ValueError):
    """A golden file is missing or has another form; says which and why."""


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
        """One line for a program to read."""
        return json.dumps(asdict(self))


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
        """One line for a program to read."""
        return json.dumps(asdict(self))


def verify_golden(prefix: str | FilePath) -> GoldenReport:
    """Recompute a world transformer's file. Raises `GoldenRefused`."""
    meta, tensors = _read(FilePath(prefix))
    try:
        return Replay(meta, tensors).report()
    except KeyError as error:
        raise GoldenRefused(f"{prefix}: there is no {error}") from None
    except (ConfigRefused, NamesRefused, ScheduleRefused) as error:
        raise GoldenRefused(f"{prefix}: {error}") from None


def verify_camera(prefix: str | FilePath) -> CameraReport:
    """Recompute a camera's file. Raises `GoldenRefused`."""
    cases, tensors = _read(FilePath(prefix))
    pose, rays = 0.0, 0.0
    for name, script in cases.items():
        try:
            width, height = map(int, name.rpartition("@")[2].split("x"))
            of_poses, of_rays = _camera_case(name, script, tensors, width, height)
        except KeyError as error:
            raise GoldenRefused(f"{prefix}: there is no {error}") from None
        pose, rays = _larger(pose, of_poses), _larger(rays, of_rays)
    return CameraReport(pose, rays)


class Replay:
    """One golden file, played block by block through the serving path's own parts."""

    def __init__(self, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.meta = meta
        self.tensors = tensors
        self.schedule = Schedule(tuple(Step(float(t), float(s)) for t, s in meta["schedule"]))
        self.transformer = _transformer(meta, tensors)
        self.flow_error = 0.0
        self.x0_error = 0.0

    @torch.inference_mode()
    def report(self) -> GoldenReport:
        """Play all blocks."""
        config = self.transformer.config
        times = [self._time(step.timestep) for step in self.schedule.steps]
        text = self.transformer.text(self.tensors["text"])
        caches = open_caches("golden", _geometry(config, self.meta), make_caches())
        for block in range(self.meta["blocks"]):
            inputs = self._inputs(block)
            self._play(block, times, inputs, text, caches)
        caches.close()
        return GoldenReport(self.flow_error, self.x0_error)

    def _play(
        self, block: int, times: list[Modulation], inputs: BlockInputs, text: TextKV, caches: WorldCaches
    ) -> None:
        slots = caches.begin()
        noise = iter(torch.split(self.tensors[f"block{block}/noise"], 1))
        flow = self.tensors[f"block{block}/flow"]

        def predict(number: int, noisy: Tensor) -> Tensor:
            out = self.transformer.forward(noisy, times[number], inputs, text, slots)
            self.flow_error = _larger(self.flow_error, _distance(out[0], flow[number]))
            return out

        *_, clean = probes(self.schedule, lambda: next(noise), predict)
        self.x0_error = _larger(self.x0_error, _distance(clean, self.tensors[f"block{block}/x0"]))
        committed = self.transformer.forward(clean, self._time(0.0), inputs, text, slots)
        self.flow_error = _larger(self.flow_error, _distance(committed[0], flow[len(times)]))
        caches.view.commit()

    def _inputs(self, block: int) -> BlockInputs:
        condition, camera = self.tensors[f"block{block}/condition"], self.tensors[f"block{block}/camera"]
        frames = condition.shape[2]
        first = self.meta["start_frame"] + block * frames
        return self.transformer.block(condition, camera, torch.arange(first, first + frames))

    def _time(self, timestep: float) -> Modulation:
        return self.transformer.time(torch.tensor(timestep, dtype=torch.float64))


def _transformer(
    meta: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> ServingTransformer | WorldTransformer:
    data = dict(meta["model"])
    data["sink_size"] = meta.get("sink_frames", data.get("sink_size"))
    data["sliding_window_num_frames"] = meta.get("window_frames_total", data.get("sliding_window_num_frames"))
    transformer = WorldTransformer(TransformerConfig.from_json(data))
    head = "weights/"
    weights = {name.removeprefix(head): tensors[name] for name in tensors if name.startswith(head)}
    wanted = {name: tuple(tensor.shape) for name, tensor in transformer.state_dict().items()}
    check_names(wanted, {name: tuple(tensor.shape) for name, tensor in weights.items()}, "weights")
    transformer.load_state_dict(weights)
    return serving(transformer)


def _geometry(config: TransformerConfig, meta: Mapping[str, Any]) -> Geometry:
    _, ph, pw = config.patch_size
    return Geometry(
        layers=config.num_layers,
        kv_heads=config.num_attention_heads,
        head_dim=config.attention_head_dim,
        dtype="float32",
        tokens_per_frame=(meta["height"] // ph) * (meta["width"] // pw),
        sink_frames=config.sink_size,
        window_frames=config.sliding_window_num_frames - config.sink_size,
        frames_per_block=config.num_frames_per_block,
    )


def _camera_case(
    name: str, script: list[list[str]], tensors: Mapping[str, Tensor], width: int, height: int
) -> tuple[float, float]:
    intrinsics = at_size(tensors[f"{name}/intrinsics_at_832x480"].tolist(), width, height)
    motions = [{"keys": [key.lower() for key in keys]} for keys in script]
    lens = Lens(width, height, intrinsics)
    path = follow(Camera(), motions, lens)
    poses = torch.tensor(path.poses, dtype=torch.float64)
    of_poses = _distance(poses, tensors[f"{name}/poses"])
    of_rays = 0.0
    for scaling in SCALINGS:
        expected = tensors.get(f"{name}/rays_{scaling}")
        if expected is not None:
            rays = _rays_by_block(path, lens, scaling)[:, :, : expected.shape[2], ::3, ::5]
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


def _read(prefix: FilePath) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        meta = json.loads(prefix.with_name(prefix.name + ".json").read_text(encoding="utf-8"))
        tensors = load_file(prefix.with_name(prefix.name + ".safetensors"))
    except (OSError, ValueError, SafetensorError) as error:
        raise GoldenRefused(f"{prefix}: {error}") from None
    return meta, tensors


def _distance(came: Tensor, expected: Tensor) -> float:
    if came.shape != expected.shape:
        raise GoldenRefused(f"shapes differ: {list(came.shape)} here, {list(expected.shape)} in the file")
    return float((came.double() - expected.double()).abs().max())


def _larger(a: float, b: float) -> float:
    """The larger one, where NaN is the largest of all."""
    return b if b != b or b > a else a
