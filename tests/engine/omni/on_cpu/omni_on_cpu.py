"""vLLM-Omni on a CPU: what its plugin groups load, by the entry points beside this file."""

from __future__ import annotations


def vllm_platform() -> str:
    """vLLM's own CPU platform: its CUDA wheel has it, but doesn't choose it."""
    return "vllm.platforms.cpu.CpuPlatform"


def omni_platform() -> str:
    """Ours."""
    return "omni_cpu_platform.CpuOmniPlatform"


def changes() -> None:
    """In every process of vLLM-Omni, before it begins."""
    from omni_cpu_changes import allow_any_size, copy_without_streams, multiply_plainly, rotate_every_head

    allow_any_size()
    copy_without_streams()
    rotate_every_head()
    multiply_plainly()
