"""A small causal video codec: 8x smaller in space, 4x in time, 16 channels.

A linear map of 8x8x4 pixel patches (it starts as their principal components) plus a convolutional residual
on both sides. Time is causal: latent frame 0 is the first picture, shown four times; each later one holds
four frames and sees, through its `Memory` layers, the features of the latent frame before it. There is no
3D convolution: at batch 1 on a CPU it runs at a tenth of the speed of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SPACE, TIME = 8, 4
PATCH = 3 * TIME * SPACE * SPACE  # values behind one latent position


@dataclass(frozen=True, slots=True)
class TinyCodecConfig:
    """The sizes of a tiny codec, as saved in its config.json, and what normalises its latents."""

    latent_channels: int = 16
    width: int = 96  # channels at latent resolution
    middle: int = 64  # at twice the latent resolution
    fine: int = 32  # at a quarter of the picture's resolution
    latents_mean: tuple[float, ...] = ()
    latents_std: tuple[float, ...] = ()
    edges: int = 0  # at half the picture's resolution, in the decoder's last stage; 0 leaves it out


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, h, w] -> the same."""
        out: Tensor = x + self.second(F.relu(self.first(F.relu(x))))
        return out


class Memory(nn.Module):
    """A residual that also sees its own input of the latent frame before (zeros before the first)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """`x`, `before`: [N, C, h, w]."""
        out: Tensor = x + self.second(F.relu(self.first(F.relu(torch.cat([x, before], dim=1)))))
        return out


class Encoder(nn.Module):
    """Pixels to latents; the sequence is the leading part of N = batch * latent frames."""

    memories = 1

    def __init__(self, config: TinyCodecConfig) -> None:
        super().__init__()
        self.linear = nn.Conv2d(PATCH, config.latent_channels, 1)
        self.fold = nn.Conv2d(48, config.fine, 3, padding=1)
        self.fine = Residual(config.fine)
        self.down = nn.Conv2d(config.fine, config.middle, 4, stride=2, padding=1)
        self.join = nn.Conv2d(TIME * config.middle, config.width, 1)
        self.memory = Memory(config.width)
        self.out = nn.Conv2d(config.width, config.latent_channels, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, groups: Tensor, history: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """[B, T, 4, 3, H, W] in -1..1 -> latents [B, T, C, H/8, W/8] and the history to go on from."""
        batch, steps = groups.shape[:2]
        frames = groups.flatten(0, 2)
        x = self.fold(F.pixel_unshuffle(frames, 4))
        x = self.down(F.relu(self.fine(x)))
        x = self.join(F.relu(x).reshape(batch * steps, -1, *x.shape[-2:]))
        x, last = remember(self.memory, x, batch, history[0] if history else None)
        patches = F.pixel_unshuffle(frames, SPACE).reshape(batch * steps, PATCH, *x.shape[-2:])
        latents = self.out(F.relu(x)) + self.linear(patches)
        return torch.unflatten(latents, 0, (batch, steps)), (last,)


class Edges(nn.Module):
    """The decoder's last stage: looks at the picture drawn so far, and at what it was drawn from, and says
    what to add.

    It works on 2x2 patches of pixels. What it adds is zero before training.
    """

    residuals = 3

    def __init__(self, config: TinyCodecConfig) -> None:
        super().__init__()
        self.look = nn.Conv2d(12, config.edges, 3, padding=1)
        self.widen = nn.Conv2d(config.fine, 4 * config.edges, 3, padding=1)
        self.layers = nn.ModuleList([Residual(config.edges) for _ in range(self.residuals)])
        self.out = nn.Conv2d(config.edges, 12, 3, padding=1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, frames: Tensor, features: Tensor) -> Tensor:
        """`frames` [N, 3, H, W], `features` [N, fine, H/4, W/4] -> [N, 3, H, W] to add."""
        x = self.look(F.pixel_unshuffle(frames, 2)) + F.pixel_shuffle(self.widen(features), 2)
        for layer in self.layers:
            x = layer(x)
        return F.pixel_shuffle(self.out(F.relu(x)), 2)


class Decoder(nn.Module):
    """Latents to pixels."""

    memories = 2

    def __init__(self, config: TinyCodecConfig) -> None:
        super().__init__()
        self.linear = nn.Conv2d(config.latent_channels, PATCH, 1)
        self.fold = nn.Conv2d(config.latent_channels, config.width, 3, padding=1)
        self.memory = nn.ModuleList([Memory(config.width) for _ in range(self.memories)])
        self.split = nn.Conv2d(config.width, TIME * config.middle, 3, padding=1)
        self.middle = Residual(config.middle)
        self.up = nn.Conv2d(config.middle, 4 * config.fine, 3, padding=1)
        self.fine = Residual(config.fine)
        self.out = nn.Conv2d(config.fine, 48, 3, padding=1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]
        self.edges = Edges(config) if config.edges else None

    def forward(self, latents: Tensor, history: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """[B, T, C, h, w] -> frames [B, T, 4, 3, 8 h, 8 w] and the history to go on from."""
        batch, steps = latents.shape[:2]
        z = latents.flatten(0, 1)
        x = self.fold(z)
        lasts = []
        for index, memory in enumerate(self.memory):
            x, last = remember(memory, x, batch, history[index] if history else None)
            lasts.append(last)
        x = self.split(F.relu(x))
        x = x.reshape(batch * steps * TIME, -1, *x.shape[-2:])
        x = F.pixel_shuffle(self.up(F.relu(self.middle(x))), 2)
        features = F.relu(self.fine(x))
        x = F.pixel_shuffle(self.out(features), 4)
        linear = self.linear(z).reshape(batch * steps * TIME, -1, *z.shape[-2:])
        frames = x + F.pixel_shuffle(linear, SPACE)
        if self.edges is not None:
            frames = frames + self.edges(frames, features)
        return torch.unflatten(frames, 0, (batch, steps, TIME)), tuple(lasts)


def remember(memory: nn.Module, x: Tensor, batch: int, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """Run a `Memory` over [B * T, C, h, w]; `before` is its input before the first step, [B, C, h, w]."""
    steps = torch.unflatten(x, 0, (batch, -1))
    first = torch.zeros_like(steps[:, :1]) if before is None else before[:, None]
    shifted = torch.cat([first, steps[:, :-1]], dim=1).flatten(0, 1)
    return memory(x, shifted), steps[:, -1]


class TinyCodec(nn.Module):
    """Encoder and decoder together, with whole sequences for training."""

    def __init__(self, config: TinyCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def encode_video(self, frames: Tensor) -> Tensor:
        """[B, 1 + 4 n, 3, H, W] in -1..1 -> unnormalised latents [B, 1 + n, C, H/8, W/8]."""
        padded = torch.cat([frames[:, :1].expand(-1, TIME - 1, -1, -1, -1), frames], dim=1)
        latents: Tensor = self.encoder(torch.unflatten(padded, 1, (-1, TIME)), ())[0]
        return latents

    def decode_video(self, latents: Tensor) -> Tensor:
        """Unnormalised latents [B, 1 + n, C, h, w] -> [B, 1 + 4 n, 3, 8 h, 8 w], about -1..1."""
        frames: Tensor = self.decoder(latents, ())[0].flatten(1, 2)
        return frames[:, TIME - 1 :]
