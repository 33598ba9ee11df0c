"""The layers of the Wan video autoencoder, streaming: frames in, frames out, and what each must remember.

Frames are the batch of 2D kernels, `[T, C, h, w]` in channels-last memory: a 3x3x3 convolution is the sum of
three 3x3 ones over time. On a CPU a Conv3d at batch 1 runs at a tenth of that speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.codec.codec import History

NORM_EPS = 1e-24  # the reference bounds the norm by 1e-12


@dataclass(slots=True, eq=False)
class Pass:
    """One latent frame's way through the layers: each recalls what it kept in the pass before, in order."""

    history: History
    kept: list[Tensor] = field(default_factory=list)

    @property
    def first(self) -> bool:
        """Whether this is the video's first latent frame."""
        return not self.history

    def recall(self) -> Tensor | None:
        """What the layer at this place kept; None in the first pass."""
        return None if self.first else self.history[len(self.kept)]

    def keep(self, frames: Tensor) -> None:
        """Remember `frames` for the next pass: a copy, so that nothing larger stays alive with them."""
        self.kept.append(frames.clone())


class Layer(Protocol):
    """A step of the encoder or decoder."""

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """[T, C, h, w] -> [T', C', h', w']."""

    def memory(self, size: Size) -> Iterator[int]:
        """Values kept between passes where the input is of `size`, which becomes the output's."""


@dataclass(slots=True)
class Size:
    """Frames of one channel, in pixels."""

    width: float
    height: float

    def scale(self, factor: float) -> None:
        """Another resolution."""
        self.width *= factor
        self.height *= factor

    def values(self, frames: int, channels: int) -> int:
        """How many numbers `frames` hold."""
        return round(self.width * self.height) * frames * channels


@dataclass(frozen=True, slots=True, eq=False)
class Conv:
    """A convolution over space and, where it has several taps, over the frames before; `taps` oldest first.

    Each tap is [O, C, k, k]. `stride` is in time: every `stride`th frame has an output.
    """

    taps: tuple[Tensor, ...]
    bias: Tensor
    stride: int = 1

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, stride: int = 1) -> Conv:
        """From the parameters of a Conv3d [O, C, kt, k, k] or Conv2d [O, C, k, k]."""
        taps = (weight,) if weight.ndim == 4 else weight.unbind(2)
        flat = (tap.contiguous(memory_format=torch.channels_last) for tap in taps)
        return cls(tuple(flat), bias, stride)

    @property
    def channels(self) -> int:
        """Of the input."""
        return self.taps[0].shape[1]

    def apply(self, frames: Tensor) -> Tensor:
        """Without a memory: [T + taps - 1, C, h, w] -> [T, O, h, w]."""
        last = len(self.taps) - 1
        count = (len(frames) - last + self.stride - 1) // self.stride
        newest = frames[last :: self.stride]
        padding = self.taps[0].shape[-1] // 2
        out = F.conv2d(newest, self.taps[last], self.bias, padding=padding)
        for index in range(last - 1, -1, -1):
            older = frames[index :: self.stride][:count]
            out += F.conv2d(older, self.taps[index], padding=padding)
        return out

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """Causal: blank frames come before the first."""
        depth = len(self.taps) - 1
        if not depth:
            return self.apply(x)
        before = step.recall()
        if before is None:
            before = x.new_zeros((depth, *x.shape[1:])).contiguous(memory_format=torch.channels_last)
        frames = torch.cat([before, x])
        step.keep(frames[-depth:])
        return self.apply(frames)

    def memory(self, size: Size) -> Iterator[int]:
        """As many frames as there are taps beside the newest."""
        if len(self.taps) > 1:
            yield size.values(len(self.taps) - 1, self.channels)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """Every position divided by the root mean square of its channels; then SiLU, where `silu`."""

    gamma: Tensor  # [C]
    silu: bool = True

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """The same size."""
        positions = x.permute(0, 2, 3, 1)
        out = F.rms_norm(positions, self.gamma.shape, self.gamma, NORM_EPS)
        if self.silu:
            out = F.silu(out, inplace=True)
        return out.permute(0, 3, 1, 2)

    def memory(self, size: Size) -> Iterator[int]:
        """None."""
        return iter(())


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """The layers' output added to the input, or to what `shortcut` makes of it."""

    layers: tuple[Layer, ...]
    shortcut: Conv | None

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """The same frames."""
        straight = x if self.shortcut is None else self.shortcut.apply(x)
        for layer in self.layers:
            x = layer.run(x, step)
        return x + straight

    def memory(self, size: Size) -> Iterator[int]:
        """That of the layers."""
        return (values for layer in self.layers for values in layer.memory(size))


@dataclass(frozen=True, slots=True, eq=False)
class FrameAttention:
    """One head over the positions of each frame by itself, added to the input."""

    norm: Norm
    qkv: Conv
    out: Conv

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """The same size."""
        joined = self.qkv.apply(self.norm.run(x, step)).permute(0, 2, 3, 1).flatten(1, 2)  # [T, h w, 3 C]
        q, k, v = joined.unsqueeze(1).chunk(3, dim=-1)
        mixed = F.scaled_dot_product_attention(q, k, v)[:, 0]
        return x + self.out.apply(mixed.transpose(1, 2).reshape(x.shape))

    def memory(self, size: Size) -> Iterator[int]:
        """None."""
        return iter(())


@dataclass(frozen=True, slots=True, eq=False)
class Upsample:
    """Twice the resolution; twice the frames as well where there is a convolution over `time`.

    The video's first latent frame stays one frame, and the convolution never sees it.
    """

    space: Conv
    time: Conv | None

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """[T, C, h, w] -> [T or 2 T, O, 2 h, 2 w]."""
        if self.time is not None:
            if step.first:
                step.keep(x.new_zeros((len(self.time.taps) - 1, *x.shape[1:])))
            else:
                pairs = self.time.run(x, step)  # [T, 2 C, h, w]
                x = pairs.reshape(2 * len(pairs), -1, *pairs.shape[2:])
        x = x.contiguous(memory_format=torch.channels_last)
        return self.space.apply(F.interpolate(x, scale_factor=2.0, mode="nearest-exact"))

    def memory(self, size: Size) -> Iterator[int]:
        """That of the convolution over time."""
        if self.time is not None:
            yield from self.time.memory(size)
        size.scale(2)


@dataclass(frozen=True, slots=True, eq=False)
class Downsample:
    """Half the resolution; half the frames as well where there is a convolution over `time`.

    The video's first frame stays one frame.
    """

    weight: Tensor  # [O, C, 3, 3]
    bias: Tensor
    time: Conv | None

    def run(self, x: Tensor, step: Pass) -> Tensor:
        """[T, C, h, w] -> [T or T / 2, C, h / 2, w / 2]."""
        x = F.conv2d(F.pad(x, (0, 1, 0, 1)), self.weight, self.bias, stride=2)
        if self.time is None:
            return x
        before = step.recall()
        step.keep(x[-1:])
        return x if before is None else self.time.apply(torch.cat([before, x]))

    def memory(self, size: Size) -> Iterator[int]:
        """The last frame, at the lower resolution."""
        size.scale(0.5)
        if self.time is not None:
            yield size.values(1, self.time.channels)


def run_layers(layers: Sequence[Layer], x: Tensor, history: History) -> tuple[Tensor, History]:
    """One latent frame's worth of frames through all layers, and the history after it."""
    step = Pass(history)
    for layer in layers:
        x = layer.run(x, step)
    assert step.first or len(step.kept) == len(history), "a history belongs to the same layers"
    return x, tuple(step.kept)


def memory_values(layers: Sequence[Layer], width: int, height: int) -> int:
    """Numbers that `layers` remember between passes for an input of this size."""
    size = Size(width, height)
    return sum(values for layer in layers for values in layer.memory(size))
