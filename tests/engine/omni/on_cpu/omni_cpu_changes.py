"""The places where vLLM-Omni 0.30 and vLLM's CUDA wheel insist on a GPU, or on the published weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
import vllm.model_executor.layers.utils as gemms
from torch import Tensor
from vllm_omni.diffusion.layers.rope import RotaryEmbeddingWan
from vllm_omni.diffusion.models.lingbot_world.transformer import CausalLingBotWorldTransformer3DModel
from vllm_omni.diffusion.worker import diffusion_worker


def allow_any_size() -> None:
    """Build its transformer in the sizes of config.json: its own `from_config` wants those of the 14B."""
    CausalLingBotWorldTransformer3DModel.from_config = classmethod(_from_config)


def copy_without_streams() -> None:
    """Its answers are copied on a stream of the accelerator, which a CPU doesn't have."""
    pack = diffusion_worker.pack_diffusion_output_shm
    diffusion_worker.pack_diffusion_output_shm = lambda output, **_: pack(output)
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cpu")
    torch.Stream = NoStream


def rotate_every_head() -> None:
    """Without a GPU its rotary embedding is plain PyTorch, which takes angles of no head."""
    plain = RotaryEmbeddingWan.forward_native

    def over_heads(self: RotaryEmbeddingWan, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return plain(self, x, cos.unsqueeze(-2), sin.unsqueeze(-2))

    RotaryEmbeddingWan.forward_native = over_heads


def multiply_plainly() -> None:
    """In bfloat16 vLLM's CPU platform takes a kernel of its CPU wheel, which the CUDA wheel doesn't have."""
    gemms.check_cpu_sgl_kernel = lambda *_: False


class NoStream:
    """A stream on which nothing waits."""

    def __init__(self, device: object = None) -> None:
        pass

    def wait_event(self, event: object) -> None:
        """Done already."""

    def synchronize(self) -> None:
        """Done already."""


def _from_config(
    cls: type[CausalLingBotWorldTransformer3DModel], config: Mapping[str, Any], **rest: Any
) -> CausalLingBotWorldTransformer3DModel:
    known = inspect.signature(cls.__init__).parameters
    given = {name: value for name, value in config.items() if name in known}
    return cls(**{**given, "patch_size": tuple(config["patch_size"])}, **rest)
