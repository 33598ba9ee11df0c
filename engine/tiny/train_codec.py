"""Trains the tiny codec on random walks: `worldline train codec`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from engine.codec.tiny import PATCH, SPACE, TIME, TinyCodec, TinyCodecConfig
from engine.tiny.frames import HELD_OUT, TRAINING, clip, psnr, to_float
from engine.tiny.latents import save_codec
from engine.tiny.numbers import fast_dtype
from engine.tiny.render import compiled_renderer

CLIP_LATENTS = 5


@dataclass(frozen=True, slots=True)
class CodecOptions:
    """How long and on what the codec trains; `run` is the folder of the resumable state and the result."""

    run: Path = Path("runs/codec")
    steps: int = 1600
    batch: int = 8  # clips of 17 frames
    clips: int = 2400
    rate: float = 1.5e-3
    threads: int = 2
    seed: int = 0
    save_every: int = 250


def train_codec(options: CodecOptions) -> Path:
    """Train until `options.steps`, resuming from the run's state; returns the path of the result."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    options.run.mkdir(parents=True, exist_ok=True)
    held_out = to_float(torch.stack([clip(HELD_OUT, i, CLIP_LATENTS).frames for i in range(48)]))
    kernel = compiled_renderer()
    frames = torch.stack([clip(TRAINING, i, CLIP_LATENTS, kernel).frames for i in range(options.clips)])
    codec = TinyCodec(TinyCodecConfig()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    start_from_components(codec, to_float(frames[:: max(1, options.clips // 300)]))
    optimizer = torch.optim.AdamW(codec.parameters(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0)
    state = options.run / "state.pt"
    first = restore(state, codec, optimizer) if state.exists() else 0
    columns = (TextColumn("codec"), BarColumn(), TextColumn("{task.fields[note]}"), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("codec", total=options.steps, completed=first, note="")
        for step in range(first, options.steps):
            set_rate(optimizer, options.rate * schedule(step, options.steps))
            generator = torch.Generator().manual_seed(options.seed * 1_000_003 + step)
            pick = torch.randint(len(frames), (options.batch,), generator=generator)
            loss = train_step(codec, optimizer, to_float(frames[pick]), generator)
            progress.advance(task)
            if (step + 1) % options.save_every == 0 or step + 1 == options.steps:
                note = f"step {step + 1} loss {loss:.5f} held-out {evaluate(codec, held_out):.2f} dB"
                progress.update(task, note=note)
                progress.console.log(note)
                torch.save(
                    {"step": step + 1, "codec": codec.state_dict(), "optimizer": optimizer.state_dict()},
                    state,
                )
    finish(codec, to_float(frames[:: max(1, options.clips // 300)]), options.run / "codec.pt")
    return options.run / "codec.pt"


def schedule(step: int, steps: int) -> float:
    """Warm-up, then half a cosine down to 2%."""
    return min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group the same learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def restore(state: Path, codec: TinyCodec, optimizer: torch.optim.Optimizer) -> int:
    """Load a saved run; returns the next step."""
    saved = torch.load(state, weights_only=True)
    codec.load_state_dict(saved["codec"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def train_step(
    codec: TinyCodec, optimizer: torch.optim.Optimizer, video: Tensor, generator: torch.Generator
) -> float:
    """One step on [B, 17, 3, H, W]; a little noise on the latents makes the decoder forgiving."""
    with torch.autocast("cpu", torch.bfloat16, enabled=fast_dtype() is torch.bfloat16):
        latents = codec.encode_video(video)
        noise = torch.randn(latents.shape, generator=generator) * 0.05
        decoded = codec.decode_video(latents + noise)
    difference = decoded.float() - video
    loss = difference.pow(2).mean() + 0.05 * difference.abs().mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(codec.parameters(), 0.5)
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def evaluate(codec: TinyCodec, video: Tensor) -> float:
    """Reconstruction PSNR in fp32."""
    return psnr(torch.cat([codec.decode_video(codec.encode_video(v)) for v in torch.split(video, 8)]), video)


@torch.no_grad()
def start_from_components(codec: TinyCodec, video: Tensor) -> None:
    """Set the linear maps to the principal components of the patches of `video` [B, 17, 3, H, W]."""
    groups = torch.unflatten(video[:, 1:], 1, (-1, TIME)).flatten(0, 1)
    patches = F.pixel_unshuffle(groups.flatten(0, 1), SPACE).reshape(len(groups), PATCH, -1)
    samples = patches.permute(0, 2, 1).reshape(-1, PATCH)
    samples = samples[torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))[:40000]]
    mean = samples.mean(dim=0)
    _, scale, axes = torch.linalg.svd(samples - mean, full_matrices=False)
    count = codec.config.latent_channels
    deviation, axes = scale[:count] / len(samples) ** 0.5, axes[:count]
    encode, decode = codec.encoder.linear, codec.decoder.linear
    encode.weight.copy_((axes / deviation[:, None])[..., None, None])
    decode.weight.copy_((axes * deviation[:, None]).T[..., None, None])
    assert encode.bias is not None and decode.bias is not None
    encode.bias.copy_(-(axes / deviation[:, None]) @ mean)
    decode.bias.copy_(mean)


@torch.no_grad()
def finish(codec: TinyCodec, video: Tensor, path: Path) -> None:
    """Measure what normalises the latents and save weights and config.

    A normalised channel has the standard deviation with which it moves the pixels (relative to the mean
    over the channels, square root), so that an error in a normalised latent costs about the same wherever
    it is.
    """
    latents = torch.cat([codec.encode_video(v) for v in torch.split(video, 8)]).flatten(0, 1)
    mean, deviation = latents.mean(dim=(0, 2, 3)), latents.std(dim=(0, 2, 3))
    effect = codec.decoder.linear.weight[:, :, 0, 0].norm(dim=0) * deviation
    scale = deviation / (effect / effect.mean()).sqrt()
    save_codec(codec, mean.tolist(), scale.tolist(), path)
