"""The Wan 2.1 video autoencoder as the engine uses it: one latent frame at a time, history per session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from torch import Tensor

from engine.checkpoint.index import read_json
from engine.checkpoint.tensors import load_tensors
from engine.codec.codec import History
from engine.codec.wan_layers import Layer, memory_values, run_layers
from engine.codec.wan_layout import decoder_layers, encoder_layers, flush_frames

SPACE, TIME = 8, 4
ONLY: Mapping[str, object] = {
    "is_residual": False,
    "patch_size": None,
    "in_channels": 3,
    "out_channels": 3,
    "temperal_downsample": [False, True, True],
}
"""What this codec is written for, among what the class can be configured to (diffusers' spelling)."""


class WanCodec:
    """Implements `Codec`. Every latent frame is a pass of its own, so that bytes don't depend on how a video
    is cut, as in diffusers' own one-shot calls.
    """

    def __init__(
        self, encoder: Sequence[Layer], decoder: Sequence[Layer], mean: Tensor, std: Tensor, flush: int
    ) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._mean = mean  # [C, 1, 1], in the dtype and on the device that it computes with
        self._std = std
        self._flush = flush

    @property
    def channels(self) -> int:
        """Latent channels."""
        return len(self._mean)

    @property
    def flush_frames(self) -> int:
        """28 for the published configuration."""
        return self._flush

    @torch.inference_mode()
    def encode(self, frames: Tensor, history: History = ()) -> tuple[Tensor, History]:
        """See `Codec.encode`; fp32."""
        pixels = self._here(frames[0])
        first = [] if history else [1]
        groups = torch.split(pixels, first + [TIME] * ((len(pixels) - len(first)) // TIME))
        latents = []
        for group in groups:
            moments, history = run_layers(self._encoder, group, history)
            latents.append((moments[:, : self.channels] - self._mean) / self._std)
        return torch.cat(latents).transpose(0, 1).unsqueeze(0).float().contiguous(), history

    @torch.inference_mode()
    def decode(self, latents: Tensor, history: History = ()) -> tuple[Tensor, History]:
        """See `Codec.decode`; fp32."""
        frames = []
        for latent in torch.split(latents[0].transpose(0, 1), 1):
            scaled = self._here(latent) * self._std + self._mean
            pixels, history = run_layers(self._decoder, scaled, history)
            frames.append(pixels)
        return torch.cat(frames).unsqueeze(0).float(), history

    def history_bytes(self, width: int, height: int) -> int:
        """Two frames before every convolution over time, at its resolution."""
        values = memory_values(self._encoder, width, height)
        values += memory_values(self._decoder, width // SPACE, height // SPACE)
        return values * self._mean.element_size()

    def _here(self, frames: Tensor) -> Tensor:
        placed = frames.to(self._mean.device, self._mean.dtype)
        return placed.contiguous(memory_format=torch.channels_last)


def wan_codec(vae: AutoencoderKLWan) -> WanCodec:
    """Lay an autoencoder's weights out for streaming, in their dtype and on their device.

    Raises `ValueError` for a configuration of another generation.
    """
    config: Mapping[str, Any] = vae.config
    for name, only in ONLY.items():
        came = config[name]
        if (list(came) if isinstance(came, tuple | list) else came) != only:
            raise ValueError(f"{name}: got {came!r}, only {only!r} is supported")
    vae.requires_grad_(False)
    mean, std = (_statistic(vae, name) for name in ("latents_mean", "latents_std"))
    return WanCodec(encoder_layers(vae), decoder_layers(vae), mean, std, flush_frames(vae))


def _statistic(vae: AutoencoderKLWan, name: str) -> Tensor:
    values, expected = vae.config[name], vae.config["z_dim"]
    if len(values) != expected:
        raise ValueError(f"{name}: has {len(values)} values, expected z_dim = {expected}")
    return torch.tensor(values, dtype=vae.dtype, device=vae.device)[:, None, None]


def load_wan_codec(folder: Path, dtype: torch.dtype, device: torch.device | str) -> WanCodec:
    """Read a checkpoint's `vae` folder.

    Raises `CheckpointRefused` for files that are missing or hold other weights, `ValueError` for a
    configuration that isn't supported.
    """
    vae = _on_meta(folder)
    vae.load_state_dict(load_tensors(vae.state_dict(), folder, dtype, device), assign=True)
    return wan_codec(vae.eval())


def plan_wan_codec(folder: Path, dtype: torch.dtype) -> WanCodec:
    """The same without weights, on `meta`: it can say what its histories take.

    Raises `CheckpointRefused` where there is no configuration, `ValueError` for one that isn't supported.
    """
    vae = _on_meta(folder)
    vae.load_state_dict({name: one.to(dtype) for name, one in vae.state_dict().items()}, assign=True)
    return wan_codec(vae)


def _on_meta(folder: Path) -> AutoencoderKLWan:
    config = read_json(folder / "config.json")
    with torch.device("meta"):
        return AutoencoderKLWan.from_config(config)
