"""vLLM-Omni's attention by PyTorch, which has a name for every accelerator and none for a CPU."""

from __future__ import annotations

from vllm_omni.diffusion.attention.backends.sdpa import SDPABackend, SDPAImpl


class CpuAttention(SDPAImpl):
    """Its computation for CUDA, which is PyTorch's own."""

    forward = SDPAImpl.forward_cuda


class CpuBackend(SDPABackend):
    """What the platform names."""

    @staticmethod
    def get_impl_cls() -> type[SDPAImpl]:
        return CpuAttention
