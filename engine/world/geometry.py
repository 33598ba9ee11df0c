"""What the caches of a world weigh, from the transformer's configuration alone."""

from __future__ import annotations

import torch

from engine.transformer.config import TransformerConfig
from kvcache.geometry import Geometry
from kvcache.view import DTYPES

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
LATENT_STRIDE = 8  # pixels per latent, across and down
TEMPORAL_STRIDE = 4  # video frames per latent frame, behind the first


def geometry_of(
    config: TransformerConfig,
    dtype: torch.dtype,
    width: int,
    height: int,
    cross_tokens: int = 0,
    state_bytes: int = 0,
) -> Geometry:
    """For pictures of `width` x `height` pixels; `state_bytes` are a session's codec histories."""
    _, ph, pw = config.patch_size
    return Geometry(
        layers=config.num_layers,
        kv_heads=config.num_attention_heads,
        head_dim=config.attention_head_dim,
        dtype=DTYPE_NAMES[dtype],
        tokens_per_frame=(height // LATENT_STRIDE // ph) * (width // LATENT_STRIDE // pw),
        sink_frames=config.sink_size,
        window_frames=config.sliding_window_num_frames - config.sink_size,
        frames_per_block=config.num_frames_per_block,
        cross_tokens=cross_tokens,
        model_state_bytes=state_bytes,
    )
