"""Time: sinusoid, embedding, and the shifts, scales and gates that it sets in every layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class LayerModulation:
    """One layer's six vectors in fp32, scales with 1 added: [D] (one time for all tokens) or [B, S, D]."""

    shift: Tensor
    scale: Tensor
    gate: Tensor
    ffn_shift: Tensor
    ffn_scale: Tensor
    ffn_gate: Tensor


@dataclass(frozen=True, slots=True)
class Modulation:
    """What a time (or a time per frame) sets in every layer and in the head."""

    layers: tuple[LayerModulation, ...]
    head_shift: Tensor
    head_scale: Tensor


def sinusoid(times: Tensor, width: int) -> Tensor:
    """[...] -> fp32 [..., width]: cosines, then sines, of base 10000, computed in float64."""
    half = width // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=times.device) / half)
    angles = times.to(torch.float64)[..., None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=-1).float()


def modulated_norm(x: Tensor, shift: Tensor, scale: Tensor, eps: float) -> Tensor:
    """LN(x) * scale + shift in fp32, where `scale` has its 1 added; the result has x's dtype."""
    width = x.shape[-1:]
    if shift.ndim == 1:
        return F.layer_norm(x.float(), width, scale, shift, eps).to(x.dtype)
    return torch.addcmul(shift, F.layer_norm(x.float(), width, eps=eps), scale).to(x.dtype)


def gated(x: Tensor, gate: Tensor, update: Tensor) -> Tensor:
    """x + gate * update in fp32; the result has x's dtype."""
    return torch.addcmul(x.float(), gate, update.float()).to(x.dtype)
