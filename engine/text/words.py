"""A text encoder for a model that knows few words: a table of fixed vectors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

LENGTH = 8  # tokens per prompt


class WordTable:
    """Looks up the prompt's known words in order; the rest of its `LENGTH` tokens are zeros.

    Unknown words are passed over, case and punctuation too, and so are known words beyond the eighth: a
    prompt that names nothing the model knows is all zeros.
    """

    def __init__(self, words: tuple[str, ...], table: Tensor) -> None:
        assert table.shape[0] == len(words)
        self.words = words
        self.table = table
        self._rows = {word: row for row, word in enumerate(words)}

    @property
    def length(self) -> int:
        """Tokens per prompt."""
        return LENGTH

    @classmethod
    def load(cls, folder: Path) -> WordTable:
        """Read `words.json` and `model.safetensors` of a checkpoint's text_encoder folder."""
        words = tuple(json.loads((folder / "words.json").read_text(encoding="utf-8")))
        table = load_file(folder / "model.safetensors")["table"].float()
        if len(words) != len(table):
            raise ValueError(f"{folder}: words.json has {len(words)} words, the table {len(table)} rows")
        return cls(words, table)

    @classmethod
    def create(cls, words: tuple[str, ...], dim: int, seed: int = 0) -> WordTable:
        """Random vectors of about unit variance for `words`."""
        return cls(words, torch.randn(len(words), dim, generator=torch.Generator().manual_seed(seed)))

    def save(self, folder: Path) -> None:
        """Write what `load` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "words.json").write_text(json.dumps(list(self.words), indent=0) + "\n", encoding="utf-8")
        save_file({"table": self.table.contiguous()}, folder / "model.safetensors")

    def encode(self, prompt: str) -> Tensor:
        """[1, LENGTH, dim]."""
        rows = [self._rows[w] for w in re.findall(r"\w+", prompt.lower()) if w in self._rows][:LENGTH]
        out = torch.zeros(1, LENGTH, self.table.shape[1])
        out[0, : len(rows)] = self.table[rows]
        return out
