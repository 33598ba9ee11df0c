"""Golden files of other geometries, written the plain way: lists of frames and the math oracle."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attention.selection import BackendPolicy
from engine.sampler.schedule import shifted
from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer
from engine.verify import verify_golden

torch.set_num_threads(1)
BLOCKS = 5
SCHEDULE = shifted((1000.0, 500.0), 5.0)


@dataclass
class Frames:
    """All frames of one layer, and the view of the next block: sink, recent, current."""

    config: TransformerConfig
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    last: tuple[Tensor, Tensor] | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.last = (keys, values)
        return torch.cat([*self.seen(self.keys), keys], 1), torch.cat([*self.seen(self.values), values], 1)

    def seen(self, past: list[Tensor]) -> list[Tensor]:
        sink, block = self.config.sink_size, self.config.num_frames_per_block
        recent = self.config.sliding_window_num_frames - sink - block
        return past[:sink] + (past[sink:][-recent:] if recent else [])

    def commit(self) -> None:
        assert self.last is not None
        for kept, new in zip((self.keys, self.values), self.last, strict=True):
            kept.extend(torch.chunk(new, self.config.num_frames_per_block, dim=1))


def write_golden(folder: Path, config: TransformerConfig, rows: int, columns: int, start: int) -> Path:
    torch.manual_seed(5)
    model = WorldTransformer(config, BackendPolicy(default="math")).requires_grad_(False).eval()
    frames = config.num_frames_per_block
    shape = (frames, 2 * rows, 2 * columns)
    text = torch.randn(1, 4, config.text_dim)
    tensors = {f"weights/{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    tensors["text"] = text
    caches = [Frames(config) for _ in range(config.num_layers)]
    kv = model.text(text)
    for number in range(BLOCKS):
        condition, camera = torch.randn(1, 20, *shape), torch.randn(1, 384, *shape)
        noise = torch.randn(len(SCHEDULE.steps), 16, *shape)
        first = start + frames * number
        block = model.block(condition, camera, torch.arange(first, first + frames))
        flows, x0 = [], noise[:1]
        for n, step in enumerate(SCHEDULE.steps):
            noisy = noise[:1] if n == 0 else (1 - step.sigma) * x0 + step.sigma * noise[n : n + 1]
            time = model.time(torch.tensor(step.timestep, dtype=torch.float64))
            flows.append(model(noisy, time, block, kv, caches))
            x0 = noisy - step.sigma * flows[-1]
        flows.append(model(x0, model.time(torch.tensor(0.0)), block, kv, caches))
        for cache in caches:
            cache.commit()
        parts = {"condition": condition, "camera": camera, "noise": noise, "flow": torch.cat(flows), "x0": x0}
        tensors |= {f"block{number}/{name}": tensor for name, tensor in parts.items()}
    meta = {
        "height": 2 * rows,
        "width": 2 * columns,
        "blocks": BLOCKS,
        "start_frame": start,
        "model": config.to_json(),
        "schedule": [[step.timestep, step.sigma] for step in SCHEDULE.steps],
        "sink_frames": config.sink_size,
        "window_frames_total": config.sliding_window_num_frames,
    }
    (folder / "made.json").write_text(json.dumps(meta))
    save_file(tensors, folder / "made.safetensors")
    return folder / "made"


@pytest.mark.parametrize(
    ("heads", "head_dim", "layers", "rows", "columns", "sink", "view", "block", "start"),
    [
        (2, 16, 2, 1, 2, 3, 9, 3, 0),
        (3, 18, 1, 2, 1, 3, 6, 3, 1021),
        (1, 8, 3, 1, 1, 0, 3, 3, 5000),
        (2, 10, 2, 2, 2, 2, 7, 3, 1024),
        (4, 12, 1, 1, 3, 4, 11, 3, 1_000_000),
        (2, 16, 2, 3, 2, 1, 3, 2, 7),
        (2, 16, 2, 1, 2, 9, 18, 3, 2000),
    ],
)
def test_files_of_other_geometries_are_met(
    tmp_path: Path,
    heads: int,
    head_dim: int,
    layers: int,
    rows: int,
    columns: int,
    sink: int,
    view: int,
    block: int,
    start: int,
) -> None:
    config = TransformerConfig(
        num_attention_heads=heads,
        attention_head_dim=head_dim,
        ffn_dim=24,
        num_layers=layers,
        text_dim=6,
        freq_dim=8,
        sink_size=sink,
        sliding_window_num_frames=view,
        num_frames_per_block=block,
    )
    report = verify_golden(write_golden(tmp_path, config, rows, columns, start))
    assert report.ok, report
