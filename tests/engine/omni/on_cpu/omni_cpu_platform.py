"""What vLLM-Omni asks of a platform, answered for one CPU."""

from __future__ import annotations

from typing import Final

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm_omni.platforms.interface import OmniPlatform, OmniPlatformEnum

MEMORY: Final = 2**29  # bytes that are said to be free: vLLM-Omni makes its pool of K/V as large as it can


class CpuOmniPlatform(OmniPlatform, CpuPlatform):
    """One device, the CPU; attention by PyTorch."""

    _omni_enum = OmniPlatformEnum.OOT

    @classmethod
    def get_default_stage_config_path(cls) -> str:
        return "vllm_omni/deploy"

    @classmethod
    def get_diffusion_attn_backend_cls(
        cls, selected_backend: str | None, head_size: int, allow_trtllm_default: bool = False
    ) -> str:
        return "omni_cpu_attention.CpuBackend"

    @classmethod
    def supports_torch_inductor(cls) -> bool:
        return False

    @classmethod
    def get_torch_device(cls, local_rank: int | None = None) -> torch.device:
        return torch.device("cpu")

    @classmethod
    def get_device_count(cls) -> int:
        return 1

    @classmethod
    def get_device_version(cls) -> str | None:
        return None

    @classmethod
    def synchronize(cls) -> None:
        return None

    @classmethod
    def get_free_memory(cls, device: torch.device | None = None) -> int:
        return MEMORY

    @classmethod
    def get_device_memory(cls, device: torch.device | None = None) -> tuple[int, int]:
        return MEMORY, MEMORY

    @classmethod
    def reset_peak_memory_stats(cls) -> None:
        return None

    @classmethod
    def max_memory_reserved(cls) -> int:
        return 0

    @classmethod
    def max_memory_allocated(cls) -> int:
        return 0

    @classmethod
    def empty_cache(cls) -> None:
        return None
