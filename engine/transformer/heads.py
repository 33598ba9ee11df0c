"""The projections around attention; attention itself is the contract's."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention.declaration import Computation, Declaration
from attention.layer import Attention
from attention.selection import BackendPolicy
from engine.transformer.rope import rotate


class WidthNorm(nn.Module):
    """RMS norm over the full width of all heads."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return width_norm(x, self.weight, self.eps)


def width_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight in fp32.

    Fewer kernels than torch's rms_norm, which is not fused on CPU.
    """
    wide = x.float()
    norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    inverse = torch.rsqrt(norm * norm / x.shape[-1] + eps)
    return (wide * inverse * weight).to(x.dtype)


class SelfAttention(nn.Module):
    """q, k, v with full-width norms and rotary positions, and the way out."""

    def __init__(self, dim: int, heads: int, eps: float, policy: BackendPolicy | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = WidthNorm(dim, eps), WidthNorm(dim, eps)
        declaration = Declaration(Computation.SELF, "world.self", heads, heads, dim // heads)
        self.attend = Attention(declaration, policy)

    def project(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, S, D], complex rope [S, 1, hd/2] or [B, S, 1, hd/2] -> rotated q and k, and v.

        [B, S, N, hd].
        """
        q = rotate(self.norm_q(self.q(x)).unflatten(-1, (self.heads, -1)), rope)
        k = rotate(self.norm_k(self.k(x)).unflatten(-1, (self.heads, -1)), rope)
        return q, k, self.v(x).unflatten(-1, (self.heads, -1))

    def out(self, attended: Tensor) -> Tensor:
        """[B, S, N, hd] -> [B, S, D]."""
        return F.linear(attended.flatten(-2), self.o.weight, self.o.bias)


class CrossAttention(nn.Module):
    """Queries of the video on K/V of the text, which are projected once per prompt."""

    def __init__(self, dim: int, heads: int, eps: float, policy: BackendPolicy | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = WidthNorm(dim, eps), WidthNorm(dim, eps)
        declaration = Declaration(Computation.CROSS, "world.cross", heads, heads, dim // heads)
        self.attend = Attention(declaration, policy)

    def project_text(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """Embedded text [B, L, D] -> K and V [B, L, N, hd]."""
        k = self.norm_k(self.k(text)).unflatten(-1, (self.heads, -1))
        return k, self.v(text).unflatten(-1, (self.heads, -1))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """[B, S, D] -> [B, S, D]; the K/V are hidden by nothing."""
        q = self.norm_q(self.q(x)).unflatten(-1, (self.heads, -1))
        return F.linear(self.attend(q, keys, values).flatten(-2), self.o.weight, self.o.bias)
