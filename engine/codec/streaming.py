"""The tiny codec as the engine uses it: one latent frame at a time, from a checkpoint's `vae` folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.codec.codec import History
from engine.codec.tiny import SPACE, TIME, TinyCodec, TinyCodecConfig

CONFIG, WEIGHTS = "config.json", "diffusion_pytorch_model.safetensors"


class StreamingTinyCodec:
    """Every latent frame is a step of its own, so that neither bytes nor speed depend on how a video is
    cut."""

    def __init__(self, codec: TinyCodec) -> None:
        self.network = codec.eval().requires_grad_(False)
        device = next(codec.parameters()).device
        self.mean = torch.tensor(codec.config.latents_mean, device=device)[:, None, None]
        self.std = torch.tensor(codec.config.latents_std, device=device)[:, None, None]

    @property
    def channels(self) -> int:
        """Latent channels."""
        return self.network.config.latent_channels

    @property
    def flush_frames(self) -> int:
        """One blank latent frame for every layer that sees the frame before."""
        return self.network.encoder.memories

    @torch.inference_mode()
    def encode(self, frames: Tensor, history: History = ()) -> tuple[Tensor, History]:
        """See `Codec.encode`."""
        frames = frames.to(self.mean.device)
        if not history:
            frames = torch.cat([frames[:, :1].expand(-1, TIME - 1, -1, -1, -1), frames], dim=1)
        latents = []
        for group in torch.split(frames, TIME, dim=1):
            latent, history = self.network.encoder(group[:, None], history)
            latents.append((latent[:, 0] - self.mean) / self.std)
        return torch.stack(latents, dim=2), history

    @torch.inference_mode()
    def decode(self, latents: Tensor, history: History = ()) -> tuple[Tensor, History]:
        """See `Codec.decode`."""
        first = not history
        frames = []
        for latent in torch.split(latents.transpose(1, 2) * self.std + self.mean, 1, dim=1):
            group, history = self.network.decoder(latent, history)
            frames.append(group[:, 0])
        if first:
            frames[0] = frames[0][:, TIME - 1 :]
        return torch.cat(frames, dim=1), history

    def history_bytes(self, width: int, height: int) -> int:
        """One fp32 feature map at latent resolution for every memory layer."""
        layers = self.network.encoder.memories + self.network.decoder.memories
        return layers * self.network.config.width * (width // SPACE) * (height // SPACE) * 4


def load_tiny_codec(folder: Path, device: torch.device | str = "cpu") -> StreamingTinyCodec:
    """Read a checkpoint's `vae` folder; weights compute in fp32 whatever they are stored in.

    Raises `ValueError` where the config has other fields than `TinyCodecConfig`, or its latent statistics
    don't have one value per channel; `RuntimeError` of torch lists missing and unknown weights.
    """
    codec = _on_meta(folder)
    weights = {name: tensor.float().to(device) for name, tensor in load_file(folder / WEIGHTS).items()}
    codec.load_state_dict(weights, assign=True)
    return StreamingTinyCodec(codec.to(memory_format=torch.channels_last))  # type: ignore[call-overload]


def plan_tiny_codec(folder: Path) -> StreamingTinyCodec:
    """The same without weights, on `meta`: it can say what its histories take. Raises `ValueError`."""
    return StreamingTinyCodec(_on_meta(folder))


def save_tiny_codec(codec: TinyCodec, folder: Path) -> None:
    """Write what `load_tiny_codec` reads, in fp16."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"_class_name": "TinyCodec", **asdict(codec.config)}, indent=2)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    weights = {name: tensor.half().contiguous() for name, tensor in codec.state_dict().items()}
    save_file(weights, folder / WEIGHTS)


def _on_meta(folder: Path) -> TinyCodec:
    data = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    with torch.device("meta"):
        return TinyCodec(_config(data, folder / CONFIG))


def _config(data: dict[str, Any], path: Path) -> TinyCodecConfig:
    given = {name: value for name, value in data.items() if not name.startswith("_")}
    known = set(TinyCodecConfig.__dataclass_fields__)
    if set(given) - known:
        raise ValueError(f"{path}: unknown fields {sorted(set(given) - known)}; known are {sorted(known)}")
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    config = TinyCodecConfig(**fields)
    for name, values in (("latents_mean", config.latents_mean), ("latents_std", config.latents_std)):
        if len(values) != config.latent_channels:
            raise ValueError(f"{path}: {name} has {len(values)} values, expected {config.latent_channels}")
    return config
