"""flash-attn, where it is installed and a CUDA device is present."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

from attention.backends.base import Kernel
from attention.capabilities import Capabilities, Needs
from attention.masks import Mask


class FlashBackend:
    """`flash_attn_func` (flash-attn 2): no masks but causal, half precision, head dims up to 256."""

    name = "flash"
    capabilities = Capabilities(
        dtypes=frozenset({torch.float16, torch.bfloat16}),
        devices=frozenset({"cuda"}),
        grouped_queries=True,
        mask_kinds=frozenset({"q_valid"}),
        max_head_dim=256,
        head_dim_multiple=8,
        packed=True,
    )

    def unavailable(self) -> str | None:
        """Without the flash_attn library or a CUDA device it can't run."""
        if find_spec("flash_attn") is None:
            return "the flash_attn library is not installed"
        if not torch.cuda.is_available():
            return "there is no CUDA device"
        return None

    def bind(self, needs: Needs) -> Kernel:
        """Bind scale and causality; output rows of invalid queries are zeroed afterwards."""
        function = import_module("flash_attn").flash_attn_func
        scale, causal = needs.scale, needs.causal

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
            out: Tensor = function(q, k, v, softmax_scale=scale, causal=causal)
            if mask is not None and mask.dead is not None:
                out = out.masked_fill(mask.dead.transpose(1, 2), 0.0)
            return out

        return attend
