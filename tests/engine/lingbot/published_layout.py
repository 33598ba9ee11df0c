"""A checkpoint folder of small random weights in the published layout: the same bytes every time."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer

WITHOUT = "needs the extra `lingbot`: pip install -e '.[lingbot]'"
pytest.importorskip("diffusers", reason=WITHOUT)
pytest.importorskip("transformers", reason=WITHOUT)

from diffusers import AutoencoderKLWan  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: E402
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel  # noqa: E402

WIDTH, HEIGHT = 48, 32
CONFIG = TransformerConfig(
    num_attention_heads=2, attention_head_dim=16, ffn_dim=64, num_layers=2, text_dim=16, freq_dim=16
)
WEIGHTS = "diffusion_pytorch_model.safetensors"
CLASSES = {
    "transformer": ["diffusers", "CausalWorldTransformer"],
    "vae": ["diffusers", "AutoencoderKLWan"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
    "tokenizer": ["transformers", "T5TokenizerFast"],
    "scheduler": ["diffusers", "UniPCMultistepScheduler"],
}
PROMPTS = ["a meadow with trees and painted towers", "a warm sandy desert", "a neon city at night"]
PIECES = [  # and how likely each is, as a logarithm; training would break ties by chance
    *((special, 0.0) for special in ("<pad>", "</s>", "<unk>")),
    *((f"\u2581{word}", -4.0) for word in dict.fromkeys(" ".join(PROMPTS).split())),
    *((letter, -8.0) for letter in "\u2581abcdefghijklmnopqrstuvwxyz"),
]


def write_published(folder: Path) -> Path:
    """Every file that `load_model` reads."""
    torch.set_num_threads(1)
    torch.manual_seed(11)
    write_json(folder / "model_index.json", {"_class_name": "WorldPipeline", **CLASSES, "worldline": CARD})
    scheduler = {"_class_name": "UniPCMultistepScheduler", "num_train_timesteps": 1000, "flow_shift": 5.0}
    write_json(folder / "scheduler" / "scheduler_config.json", scheduler)
    save_part(small_vae(), folder / "vae")
    write_text(folder)
    write_json(folder / "transformer" / "config.json", CONFIG.to_json())
    save_weights(WorldTransformer(CONFIG), folder / "transformer")
    return folder


CARD = {"name": "published", "width": WIDTH, "height": HEIGHT}


def small_vae(base_dim: int = 4, **config: Any) -> AutoencoderKLWan:
    torch.manual_seed(3)
    given = {"z_dim": 16, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 1, **config}
    return AutoencoderKLWan(base_dim=base_dim, **given).eval()


def write_text(folder: Path) -> None:
    tokenizer = Tokenizer(models.Unigram(PIECES, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    fast.save_pretrained(folder / "tokenizer")
    sizes = {"d_model": CONFIG.text_dim, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4}
    torch.manual_seed(5)
    save_part(UMT5EncoderModel(UMT5Config(vocab_size=len(fast), **sizes)).eval(), folder / "text_encoder")


def save_part(module: Any, folder: Path) -> None:
    with contextlib.redirect_stderr(io.StringIO()):  # the libraries' progress bars
        module.save_pretrained(folder)


def save_weights(module: torch.nn.Module, folder: Path) -> None:
    weights = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    save_file(weights, folder / WEIGHTS)


def write_json(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
