"""What the engine asks of a text encoder."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class TextEncoder(Protocol):
    """Turns a prompt into what cross-attention takes: `length` tokens, whatever the prompt."""

    @property
    def length(self) -> int:
        """Tokens per prompt, L."""

    def encode(self, prompt: str) -> Tensor:
        """A prompt -> [1, L, text_dim] in fp32; the same prompt always gives the same bytes."""
