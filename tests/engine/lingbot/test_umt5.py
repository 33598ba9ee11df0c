from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.engine.lingbot.published_layout import CONFIG

from engine.text.umt5 import LENGTH, Umt5, clean, load_umt5  # isort: skip (after the check for the extra)

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def encoder(published: Path) -> Umt5:
    return load_umt5(published / "text_encoder", torch.float32, "cpu")


def test_embeddings_are_those_of_padded_tokens_with_the_padding_zeroed(
    encoder: Umt5, published: Path
) -> None:
    from transformers import AutoTokenizer, UMT5EncoderModel

    model = UMT5EncoderModel.from_pretrained(published / "text_encoder").eval()
    tokenizer = AutoTokenizer.from_pretrained(published / "tokenizer")
    tokens = tokenizer(["a warm desert"], padding="max_length", max_length=LENGTH, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
    expected = hidden * tokens.attention_mask[..., None]
    torch.testing.assert_close(encoder.encode("a warm desert"), expected, atol=1e-5, rtol=0)


def test_the_same_prompt_gives_the_same_bytes(encoder: Umt5) -> None:
    assert torch.equal(encoder.encode("a meadow"), encoder.encode("a meadow"))
    assert not torch.equal(encoder.encode("a meadow"), encoder.encode("a desert"))


@pytest.mark.parametrize("prompt", ["", "a meadow", "night " * 600])
def test_every_prompt_has_512_embeddings(encoder: Umt5, prompt: str) -> None:
    assert encoder.encode(prompt).shape == (1, LENGTH, CONFIG.text_dim)


def test_a_long_prompt_is_cut(encoder: Umt5) -> None:
    assert (encoder.encode("night " * 600).abs().sum(-1) > 0).all()


def test_entities_and_white_space_are_cleaned() -> None:
    assert clean("  sand &amp;amp;\n stone ") == "sand & stone"
