"""The UMT5 text encoder of the published checkpoints, through transformers."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel

from engine.checkpoint.index import CheckpointRefused, read_json
from engine.checkpoint.tensors import load_tensors

LENGTH = 512  # tokens per prompt
TOKENIZER = "tokenizer"  # the folder beside `text_encoder`
TOKENIZER_FILES = ("tokenizer.json", "spiece.model")
TIED = {"encoder.embed_tokens.weight": "shared.weight", "shared.weight": "encoder.embed_tokens.weight"}


class Umt5:
    """Encodes a prompt's tokens; the rest of its `LENGTH` embeddings are zeros.

    Only the prompt's own tokens are computed: padded ones would be masked, and their embeddings zeroed.
    """

    def __init__(self, model: UMT5EncoderModel, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer

    @property
    def length(self) -> int:
        """Tokens per prompt."""
        return LENGTH

    @torch.inference_mode()
    def encode(self, prompt: str) -> Tensor:
        """[1, LENGTH, dim] in fp32, on the CPU; longer prompts are cut."""
        ids: list[int] = self._tokenizer(clean(prompt), truncation=True, max_length=LENGTH).input_ids
        tokens = torch.tensor([ids], device=self._model.device)
        embedded = self._model(tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
        out = torch.zeros(1, LENGTH, embedded.shape[-1])
        out[:, : len(ids)] = embedded
        return out


def clean(prompt: str) -> str:
    """HTML entities resolved (also doubly escaped ones), white space collapsed: what training text saw."""
    return " ".join(html.unescape(html.unescape(prompt)).split())


def load_umt5(folder: Path, dtype: torch.dtype, device: torch.device | str) -> Umt5:
    """Read a checkpoint's `text_encoder` folder, and the `tokenizer` folder beside it; nothing is downloaded.

    Raises `CheckpointRefused` for files that are missing or hold other weights, `ValueError` or `OSError` for
    a tokenizer that can't be read.
    """
    given = read_json(folder / "config.json")
    try:
        config = UMT5Config.from_dict(given)
    except Exception as error:  # the library's own kinds, without a base among Python's
        raise CheckpointRefused(f"{folder}/config.json: {error}") from error
    beside = folder.parent / TOKENIZER
    if not any((beside / name).is_file() for name in TOKENIZER_FILES):
        raise CheckpointRefused(f"{beside}: no tokenizer; expected {' or '.join(TOKENIZER_FILES)}")
    tokenizer = AutoTokenizer.from_pretrained(beside, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        model = UMT5EncoderModel(config)
    weights = load_tensors(model.state_dict(), folder, dtype, device, aliases=TIED)
    model.load_state_dict(weights, assign=True)
    return Umt5(model.eval().requires_grad_(False), tokenizer)
