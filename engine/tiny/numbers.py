"""Which numbers the training programs multiply."""

from __future__ import annotations

import torch


def fast_dtype() -> torch.dtype:
    """bf16 where the CPU has matrix units for it, fp32 elsewhere (bf16 is emulated, slowly, without them)."""
    capability = torch.backends.cpu.get_cpu_capability()
    amx = bool(torch.cpu._is_amx_tile_supported()) if hasattr(torch.cpu, "_is_amx_tile_supported") else False
    return torch.bfloat16 if amx and capability.startswith("AVX512") else torch.float32
