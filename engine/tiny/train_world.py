"""Trains the tiny world model: `worldline train world`.

One process makes shards of walks (rendered, encoded) while another trains on what is there. Both go on
where they stopped. Two steps in three see single blocks without context, so that the camera's place in the
world has to carry the picture; the third sees whole walks with their context true, noisy or wrong.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.camera.session_rays import SessionRays
from engine.text.words import WordTable
from engine.tiny.latents import Walks, load_shard, make_shard, save_shard
from engine.tiny.muon import Muon
from engine.tiny.numbers import fast_dtype
from engine.tiny.objective import Noise, one_block_loss, whole_walk_loss
from engine.tiny.render import compiled_renderer
from engine.tiny.saving import Parts, load_run, save_run
from engine.tiny.watch import Watch
from engine.tiny.words import WORDS, random_prompt
from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer

TEXT_DIM = 64
FIRST_SHARDS, FIRST_STEPS = 4, 80  # shards to begin with; they double after so many steps, twice as many ...


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """How long and on what the world model trains; `run` is the folder of data, resumable state and
    result."""

    codec: Path = Path("runs/codec/codec.pt")
    run: Path = Path("runs/world")
    steps: int = 7400
    blocks: int = 48  # per step without context
    walks: int = 4  # per step with context
    walk_every: int = 3  # one step in so many sees context
    shards: int = 77  # of 60 walks
    rate: float = 2e-3
    flat: float = 0.4  # share of the steps before the rate falls
    threads: int = 2
    seed: int = 0
    save_every: int = 50
    make_data: bool = True  # in a process beside this one; without it, only what lies in the run is used
    own_context: float = 0.5  # share of the contexts that the model itself made


def config_of(rays: SessionRays) -> TransformerConfig:
    """The tiny world's architecture."""
    return TransformerConfig(
        num_attention_heads=6,
        attention_head_dim=32,
        ffn_dim=768,
        num_layers=6,
        text_dim=TEXT_DIM,
        freq_dim=64,
        sink_size=3,
        sliding_window_num_frames=9,
        camera_inputs=("framewise", "session"),
        session_rays=rays,
    )


def initialise(model: WorldTransformer) -> None:
    """Start with open gates, closed residual branches, and session features at unit scale."""
    zero: list[nn.Module] = [model.head.head, model.c2ws_hidden_states_layer2, model.time_projection[1]]
    for block in model.layers():
        with torch.no_grad():
            block.modulation.zero_()
            block.modulation[:, 2] = block.modulation[:, 5] = 1
        zero += [block.self_attn.o, block.cross_attn.o, block.ffn[2], block.cam_injector_layer2]
        zero += [block.cam_scale_layer]
    for layer in zero:
        assert isinstance(layer, nn.Linear)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    nn.init.normal_(model.patch_embedding_session.weight, std=model.config.session_channels**-0.5)


@dataclass(slots=True)
class Run:
    """Everything that a resumed run needs again."""

    model: WorldTransformer
    average: WorldTransformer
    matrices: Muon
    others: torch.optim.AdamW
    step: int = 0

    def save(self, path: Path) -> None:
        """Write the state in one move."""
        save_run(self.step, self._parts, path)

    def load(self, path: Path) -> None:
        """Go on from what `save` wrote."""
        self.step = load_run(self._parts, path)

    @property
    def _parts(self) -> Parts:
        return {
            "model": self.model,
            "average": self.average,
            "matrices": self.matrices,
            "others": self.others,
        }


def new_run(options: WorldOptions, rays: SessionRays) -> Run:
    """A freshly initialised model with its optimizers."""
    torch.manual_seed(options.seed)
    model = WorldTransformer(config_of(rays))
    initialise(model)
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return Run(
        model,
        copy.deepcopy(model),
        Muon(matrices, options.rate, dtype=fast_dtype()),
        torch.optim.AdamW(others, options.rate, betas=(0.9, 0.98), weight_decay=0.0),
    )


def train_world(options: WorldOptions) -> Path:
    """Train until `options.steps`; returns the path of the state, whose `average` is the result."""
    torch.set_num_threads(options.threads)
    options.run.mkdir(parents=True, exist_ok=True)
    if options.make_data:
        maker = multiprocessing.get_context("spawn").Process(
            target=make_shards, args=(options, os.getpid()), daemon=True
        )
        maker.start()
    rays = SessionRays()
    run = new_run(options, rays)
    state = options.run / "state.pt"
    if state.exists():
        run.load(state)
    if fast_dtype() is torch.bfloat16:
        for block in run.model.blocks:
            block.compile(dynamic=False)
    data = ShardFolder(options.run / "data", options.shards)
    constant = blank_latent(data.walks(0))
    table = WordTable.create(WORDS, TEXT_DIM)
    watch = Watch(options.codec)
    columns = (TextColumn("world"), BarColumn(), TextColumn("{task.fields[note]}"), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("world", total=options.steps, completed=run.step, note="")
        losses: dict[str, list[float]] = {"block": [], "walk": []}
        while run.step < options.steps:
            kind, loss = train_step(run, options, data.walks(run.step), constant, rays, table)
            losses[kind].append(loss)
            progress.advance(task)
            if run.step % options.save_every == 0 or run.step == options.steps:
                means = " ".join(f"{name} {np.mean(seen or [math.nan]):.4f}" for name, seen in losses.items())
                progress.update(task, note=f"step {run.step} {means} shards {data.count}")
                progress.console.log(f"step {run.step} {means} shards {data.count}")
                losses = {"block": [], "walk": []}
                run.save(state)
                if run.step % (5 * options.save_every) == 0 or run.step == options.steps:
                    progress.console.log(watch.report(run.average, constant, rays, table))
    return state


def train_step(
    run: Run, options: WorldOptions, walks: Walks, constant: Tensor, rays: SessionRays, table: WordTable
) -> tuple[str, float]:
    """One update; everything random follows from the seed and the step."""
    generator = torch.Generator().manual_seed(options.seed * 1_000_003 + run.step)
    rng = np.random.default_rng([options.seed, run.step])
    with_context = run.step % options.walk_every == options.walk_every - 1
    count = options.walks if with_context else options.blocks
    pick = torch.randint(len(walks.place), (count,), generator=generator)
    prompts = ["" if rng.random() < 0.03 else random_prompt(rng, int(walks.place[i])) for i in pick]
    text = torch.cat([table.encode(prompt) for prompt in prompts])
    set_rates(run, options)
    parts = (run.model, walks, pick, text, constant, rays, Noise(), generator)
    kernels = (
        [SDPBackend.FLASH_ATTENTION] if with_context else [SDPBackend.MATH]
    )  # the faster one at each size
    with torch.autocast("cpu", torch.bfloat16, enabled=fast_dtype() is torch.bfloat16), sdpa_kernel(kernels):
        if with_context:
            loss = whole_walk_loss(*parts, own_context=run.step > 600 and rng.random() < options.own_context)
        else:
            loss = one_block_loss(*parts)
    run.matrices.zero_grad()
    run.others.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    run.matrices.step()
    run.others.step()
    run.step += 1
    keep = min(0.998, (1 + run.step) / (10 + run.step))
    with torch.no_grad():
        torch._foreach_lerp_(list(run.average.parameters()), list(run.model.parameters()), 1 - keep)
    return ("walk" if with_context else "block"), float(loss.detach())


def set_rates(run: Run, options: WorldOptions) -> None:
    """Warm-up, flat, then half a cosine down to 2%."""
    done = run.step / options.steps
    falling = max(0.0, (done - options.flat) / (1 - options.flat))
    share = min(1.0, (run.step + 1) / 60) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * falling)))
    for group in (*run.matrices.param_groups, *run.others.param_groups):
        group["lr"] = options.rate * share


class ShardFolder:
    """The shards, which another process may still be making.

    How many count at a step depends on the step alone, so that the same seed gives the same weights.
    """

    def __init__(self, folder: Path, wanted: int) -> None:
        self.folder, self.wanted = folder, wanted
        self.count = 0
        self._walks: Walks | None = None

    def walks(self, step: int) -> Walks:
        """The walks that a step may draw from; waits for them."""
        due = min(self.wanted, FIRST_SHARDS << int(math.log2(1 + step / FIRST_STEPS)))
        if self._walks is None or due > self.count:
            paths = [shard_path(self.folder, index) for index in range(due)]
            while not all(path.exists() for path in paths):
                time.sleep(2)
            self._walks = Walks.join([load_shard(path) for path in paths])
            self.count = due
        return self._walks


def shard_path(folder: Path, index: int) -> Path:
    """Where a shard lies."""
    return folder / f"{index:04d}.pt"


def blank_latent(walks: Walks) -> Tensor:
    """The image latent [C, h, w] once the encoder has forgotten the picture: the same for every walk."""
    return walks.image[0, -1].float()


def make_shards(options: WorldOptions, parent: int | None = None) -> None:
    """Make the shards that are missing, one after another; ends when its `parent` process has."""
    torch.set_num_threads(1)
    folder = options.run / "data"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [i for i in range(options.shards) if not shard_path(folder, i).exists()]
    kernel = compiled_renderer() if missing else None
    for index in missing:
        if parent is not None and os.getppid() != parent:
            break
        save_shard(make_shard(index, options.codec, kernel), shard_path(folder, index))
