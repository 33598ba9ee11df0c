"""Holds a compiled transformer to the eager one, before it serves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import Tensor

from engine.transformer.block import SelfOnly
from engine.transformer.compiled import CompiledTransformer
from engine.transformer.model import WorldTransformer
from engine.transformer.serving import ServingTransformer

log = logging.getLogger(__name__)

AnyTransformer = ServingTransformer | CompiledTransformer | WorldTransformer

TOLERANCES: Final[Mapping[torch.dtype, float]] = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""The largest difference of a prediction, as a share of its largest value."""


def compiled_or_eager(
    module: WorldTransformer,
    eager: ServingTransformer | WorldTransformer,
    latent_size: tuple[int, int],
    text_tokens: int,
    make: Callable[[WorldTransformer], CompiledTransformer] = CompiledTransformer,
) -> AnyTransformer:
    """The compiled form where it predicts what `eager` does and repeats itself bit for bit; else `eager`,
    with a line in the log that says why.

    `latent_size` is the (height, width) that it is compiled for now; another one is when it first comes.
    """
    try:
        compiled = make(module)
        expected = predict(eager, latent_size, text_tokens)
        first, second = (predict(compiled, latent_size, text_tokens) for _ in range(2))
    except Exception:
        log.warning("the transformer could not be compiled; it is served as it is", exc_info=True)
        return eager
    problem = difference(expected, first, second)
    if problem is not None:
        log.warning("the compiled transformer is not used: %s", problem)
        return eager
    log.info("the transformer is compiled")
    return compiled


def difference(expected: Tensor, first: Tensor, second: Tensor) -> str | None:
    """Why two predictions of a compiled form can't stand for the eager one; None where they can."""
    if not torch.equal(first, second):
        return "it predicts something else each time"
    allowed = TOLERANCES[expected.dtype] * expected.abs().max().item()
    largest = (first - expected).abs().max().item()
    if not largest <= allowed:  # NaN included
        return f"it differs from the eager one by {largest:.3g}, allowed are {allowed:.3g}"
    return None


@torch.inference_mode()
def predict(transformer: AnyTransformer, latent_size: tuple[int, int], text_tokens: int) -> Tensor:
    """One forward without a history on noise that is the same each time; [1, out, F, h, w]."""
    config = transformer.config
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(transformer.device, transformer.dtype)

    frames, (_, ph, pw) = config.num_frames_per_block, config.patch_size
    of, patches = (frames, *latent_size), (frames, latent_size[0] // ph, latent_size[1] // pw)
    session = noise(1, config.session_channels, *patches) if config.session_channels else None
    text = transformer.text(noise(1, text_tokens, config.text_dim))
    inputs = transformer.block(
        noise(1, config.in_channels - config.out_channels, *of),
        noise(1, config.camera_channels, *of),
        torch.arange(frames, device=transformer.device),
        session,
    )
    time = transformer.time(torch.tensor(500.0, dtype=torch.float64, device=transformer.device))
    latent = noise(1, config.out_channels, *of)
    return transformer.forward(latent, time, inputs, text, [SelfOnly()] * config.num_layers)
