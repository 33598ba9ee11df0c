"""What the forms of the transformer that lay its weights out anew leave to the module."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.transformer.config import TransformerConfig
from engine.transformer.model import TextKV, WorldTransformer
from engine.transformer.modulation import Modulation


class LaidOut:
    """Over a module whose parameters must not change any more."""

    def __init__(self, module: WorldTransformer) -> None:
        self.module = module
        self.config: TransformerConfig = module.config

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return self.module.dtype

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.module.device

    def time(self, time: Tensor) -> Modulation:
        """As the module's."""
        return self.module.time(time)

    def text(self, text: Tensor) -> TextKV:
        """As the module's."""
        return self.module.text(text)
