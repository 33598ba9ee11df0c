"""The camera's way into every layer, computed for all layers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from engine.transformer.affine import Affine, AffineStack
from engine.transformer.block import Block


@dataclass(frozen=True, slots=True, eq=False)
class Injectors:
    """The injectors of all blocks: they share their input, so that the first product is one."""

    first: Affine  # [D, L D]
    second: AffineStack  # [L, D, D]
    third: AffineStack  # [L, D, 2 D]: scale, with 1 added to its bias, and shift

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Injectors:
        """Lay the blocks' weights out."""
        thirds = [Affine.of(block.cam_scale_layer, block.cam_shift_layer) for block in blocks]
        for third in thirds:
            third.bias[: third.bias.shape[0] // 2] += 1
        return cls(
            first=Affine.of(*(block.cam_injector_layer1 for block in blocks)),
            second=AffineStack.of([Affine.of(block.cam_injector_layer2) for block in blocks]),
            third=AffineStack.of(thirds),
        )

    def inject(self, camera: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
        """Camera embedding [S, D] -> per layer: scale (1 added) and shift of its tokens, [S, D]."""
        tokens, dim = camera.shape
        hidden = F.silu(self.first(camera), inplace=True).view(tokens, -1, dim).transpose(0, 1)
        both = self.third(self.second(hidden).add_(camera))  # [L, S, 2 D]
        return tuple(zip(both[..., :dim].unbind(), both[..., dim:].unbind(), strict=True))
