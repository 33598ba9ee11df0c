"""A transformer and a codec that raise at a call that a test chooses."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.codec.codec import History
from engine.codec.streaming import StreamingTinyCodec
from engine.transformer.block import LayerCache
from engine.transformer.model import BlockInputs, TextKV
from engine.transformer.modulation import Modulation
from engine.transformer.serving import ServingTransformer


class FailingTransformer(ServingTransformer):
    """Raises at the n-th forward from now, counting the commit's."""

    left = -1

    def forward(
        self,
        latent: Tensor,
        time: Modulation,
        block: BlockInputs,
        text: TextKV,
        caches: Sequence[LayerCache],
    ) -> Tensor:
        self._count()
        return super().forward(latent, time, block, text, caches)

    def write(
        self, latent: Tensor, time: Modulation, block: BlockInputs, text: TextKV, caches: Sequence[LayerCache]
    ) -> None:
        super().write(latent, time, block, text, caches)  # the K/V are written, and then it raises
        self._count()

    def text(self, text: Tensor) -> TextKV:
        self._count()
        return super().text(text)

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("injected")


class FailingCodec(StreamingTinyCodec):
    """Raises at the n-th call from now."""

    left = -1

    def encode(self, frames: Tensor, history: History = ()) -> tuple[Tensor, History]:
        self._count()
        return super().encode(frames, history)

    def decode(self, latents: Tensor, history: History = ()) -> tuple[Tensor, History]:
        out = super().decode(latents, history)
        self._count()
        return out

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("injected")
