"""Trains the decoder's edges: `worldline train decoder`.

The encoder stays as it is, so that a trained world model stays valid. The decoder gets a last stage that
looks at what it has drawn (`Edges`), and learns to draw the renderer's pictures from true latents and from
those of the world model, whose edges lie a little off. What is only near in the mean is soft; so it is also
told to match the energy of the truth's edges, and to pass before a critic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from engine.codec.tiny import TIME, TinyCodec
from engine.tiny.critic import Critic, critic_loss
from engine.tiny.dreams import SHARD, Dreams, load_dreams, make_dreams, save_dreams
from engine.tiny.edge_loss import edge_losses, motion_losses
from engine.tiny.frames import to_float
from engine.tiny.latents import load_codec, save_codec
from engine.tiny.numbers import fast_dtype
from engine.tiny.render import compiled_renderer
from engine.tiny.saving import Parts, load_run, save_run

EDGES = 32  # channels of the new stage
LATENT_NOISE = 0.05  # the most, in standard deviations
CRITIC_BEGINS, CRITIC_COUNTS = 60, 160  # steps: between them its weight grows from none to all


@dataclass(frozen=True, slots=True)
class DecoderOptions:
    """How long and on what the decoder trains; `run` is the folder of data, resumable state and result."""

    codec: Path = Path("runs/codec/codec.pt")
    world: Path = Path("runs/world/state.pt")
    run: Path = Path("runs/decoder")
    steps: int = 4200
    batch: int = 4  # clips
    span: int = 3  # latent frames of a clip, after the one that only gives it a past
    shards: int = 20  # of 12 walks
    rate: float = 1e-3  # of the new stage
    body_share: float = 1.0  # of that rate, for the stages that were there
    critic_rate: float = 1e-3
    own_share: float = 0.85  # of the clips: latents of the world model
    absolute: float = 0.25  # weight of the Laplacian's error beside the pixels'
    energy: float = 0.1
    steps_absolute: float = 0.5  # weight of the error of what changes from picture to picture
    motion: float = 0.02  # of the energy of these changes
    critic: float = 0.005  # 0.1 paints a grid
    threads: int = 2
    seed: int = 0
    save_every: int = 50


@dataclass(slots=True)
class Run:
    """Everything that a resumed run needs again."""

    codec: TinyCodec
    critic: Critic
    painter: torch.optim.AdamW
    judge: torch.optim.AdamW
    step: int = 0

    def save(self, path: Path) -> None:
        """Write the state in one move."""
        save_run(self.step, self._parts, path)

    def load(self, path: Path) -> None:
        """Go on from what `save` wrote."""
        self.step = load_run(self._parts, path)

    @property
    def _parts(self) -> Parts:
        return {"codec": self.codec, "critic": self.critic, "painter": self.painter, "judge": self.judge}


def new_run(options: DecoderOptions) -> tuple[Run, Tensor, Tensor]:
    """The codec with the new stage (its own, if it has it) and optimizers; mean and scale of its latents."""
    torch.manual_seed(options.seed)
    start, mean, std = load_codec(options.codec)
    config = replace(start.config, edges=start.config.edges or EDGES)
    codec = TinyCodec(config).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    codec.load_state_dict({**codec.state_dict(), **start.state_dict()})
    codec.encoder.requires_grad_(False)
    assert codec.decoder.edges is not None
    fresh = list(codec.decoder.edges.parameters())
    chosen = {id(parameter) for parameter in fresh}
    body = [p for p in codec.decoder.parameters() if id(p) not in chosen]
    groups: list[dict[str, Any]] = [
        {"params": fresh, "share": 1.0},
        {"params": body, "share": options.body_share},
    ]
    critic = Critic().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    painter = torch.optim.AdamW(groups, options.rate, betas=(0.9, 0.98), weight_decay=0.0)
    judge = torch.optim.AdamW(critic.parameters(), options.critic_rate, betas=(0.0, 0.95), weight_decay=0.0)
    return Run(codec, critic, painter, judge), mean, std


def train_decoder(options: DecoderOptions) -> Path:
    """Train until `options.steps`, resuming from the run's state; returns the path of the new codec."""
    torch.set_num_threads(options.threads)
    options.run.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("decoder"), BarColumn(), TextColumn("{task.fields[note]}"), TimeRemainingColumn())
    with Progress(*columns) as progress:
        dreams = all_dreams(options, progress)
        run, mean, std = new_run(options)
        state, result = options.run / "state.pt", options.run / "decoder.pt"
        if state.exists():
            run.load(state)
        task = progress.add_task("decoder", total=options.steps, completed=run.step, note="")
        seen: list[tuple[float, ...]] = []
        while run.step < options.steps:
            seen.append(train_step(run, options, dreams, mean, std))
            progress.advance(task)
            if run.step % options.save_every == 0 or run.step == options.steps:
                note = f"step {run.step} " + describe(seen)
                progress.update(task, note=note)
                progress.console.log(note)
                seen.clear()
                run.save(state)
                finish(run.codec, mean, std, result)
    return result


def all_dreams(options: DecoderOptions, progress: Progress) -> Dreams:
    """The data: what lies in the run, and what is missing from it, made."""
    folder = options.run / "data"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:04d}.pt" for index in range(options.shards)]
    kernel = compiled_renderer() if not all(path.exists() for path in paths) else None
    task = progress.add_task("walks", total=len(paths), note=f"of {SHARD} walks")
    for index, path in enumerate(paths):
        if not path.exists():
            save_dreams(make_dreams(index, options.codec, options.world, kernel), path)
        progress.advance(task)
    return Dreams.join([load_dreams(path) for path in paths])


def train_step(
    run: Run, options: DecoderOptions, dreams: Dreams, mean: Tensor, std: Tensor
) -> tuple[float, ...]:
    """One update of decoder and critic; everything random follows from the seed and the step."""
    generator = torch.Generator().manual_seed(options.seed * 1_000_003 + run.step)
    latents, truth = draw_clips(options, dreams, generator)
    set_rates(run, options)
    with fast_numbers():
        drawn = run.codec.decode_video(latents * std + mean).float()[:, 1:]
    with fast_numbers():
        judge_loss = critic_loss(run.critic(truth), run.critic(drawn.detach()))
    update(run.judge, judge_loss)
    run.critic.requires_grad_(False)
    with fast_numbers():
        deceit = -run.critic(drawn).mean()
    run.critic.requires_grad_(True)
    absolute, energy = edge_losses(drawn, truth)
    pixels = F.l1_loss(drawn, truth)
    heard = min(1.0, max(0.0, (run.step - CRITIC_BEGINS) / (CRITIC_COUNTS - CRITIC_BEGINS)))
    steps, motion = motion_losses(drawn, truth)
    loss = pixels + options.absolute * absolute + options.energy * energy + heard * options.critic * deceit
    loss = loss + options.steps_absolute * steps + options.motion * motion
    update(run.painter, loss)
    run.step += 1
    parts = (pixels, absolute, energy, steps, motion, deceit, judge_loss)
    return tuple(float(part.detach()) for part in parts)


def fast_numbers() -> torch.autocast:
    """bf16 where the CPU has matrix units for it."""
    return torch.autocast("cpu", torch.bfloat16, enabled=fast_dtype() is torch.bfloat16)


def draw_clips(options: DecoderOptions, dreams: Dreams, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Latents [B, 1 + span, C, h, w], the world model's or true, a little noisy, and the pictures of all
    but the first, [B, 4 * span, 3, H, W]: the first is there to be the others' past."""
    count, length = dreams.true.shape[:2]
    pick = torch.randint(count, (options.batch, 1), generator=generator)
    start = torch.randint(length - options.span, (options.batch, 1), generator=generator)
    index = start + torch.arange(options.span + 1)
    own = torch.rand(options.batch, 1, 1, 1, 1, generator=generator) < options.own_share
    latents = torch.where(own, dreams.own[pick, index], dreams.true[pick, index]).float()
    amount = LATENT_NOISE * torch.rand(options.batch, 1, 1, 1, 1, generator=generator)
    noisy = latents + amount * torch.randn(latents.shape, generator=generator)
    pictures = TIME * start + 1 + torch.arange(TIME * options.span)
    return noisy, to_float(dreams.frames[pick, pictures])


def set_rates(run: Run, options: DecoderOptions) -> None:
    """Warm-up, then half a cosine down to 2%; the critic keeps at least a fifth."""
    falling = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * run.step / options.steps))
    share = min(1.0, (run.step + 1) / 30) * falling
    for group in run.painter.param_groups:
        group["lr"] = options.rate * share * group["share"]
    for group in run.judge.param_groups:
        group["lr"] = options.critic_rate * max(0.2, share)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step, its gradient clipped."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    nn.utils.clip_grad_norm_(parameters, 0.5)
    optimizer.step()


def describe(seen: list[tuple[float, ...]]) -> str:
    """The mean losses of the last steps, by name."""
    names = ("pixels", "edges", "energy", "steps", "motion", "deceit", "critic")
    means = torch.tensor(seen).mean(dim=0).tolist() if seen else [math.nan] * len(names)
    return " ".join(f"{name} {value:.4f}" for name, value in zip(names, means, strict=True))


def finish(codec: TinyCodec, mean: Tensor, std: Tensor, path: Path) -> None:
    """Save weights, sizes, and what normalises the latents."""
    save_codec(codec, mean.flatten().tolist(), std.flatten().tolist(), path)
