"""How vLLM-Omni is started: one stage, one replica, one block per request."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STAGE: Final = 0
PIPELINE: Final = "LingBotWorldCausalDMDPipeline"
AR_ENGINE: Final = "vllm_omni.experimental.ar_diffusion.engine.ARDiffusionEngine"
MEMORY_FRACTION: Final = 0.6  # what vLLM-Omni's own deployment of this model takes


@dataclass(frozen=True, slots=True)
class Deployment:
    """A checkpoint and the picture size in pixels, which vLLM-Omni fixes for all sessions.

    `file`: a deployment of the operator's own (vLLM-Omni's YAML) instead of `as_json`.
    """

    folder: Path
    width: int
    height: int
    steps: int
    flow_shift: float | None
    file: str | None = None

    def as_json(self) -> dict[str, object]:
        """The fields of vLLM-Omni's own deployment of this model, without its step-wise streaming."""
        extra = {} if self.flow_shift is None else {"flow_shift": self.flow_shift}
        stage = {
            "stage_id": STAGE,
            "devices": "0",
            "max_num_seqs": 1,
            "enforce_eager": True,
            "model_class_name": PIPELINE,
            "engine_backend": AR_ENGINE,
            "default_sampling_params": {
                "num_inference_steps": self.steps,
                "output_type": "latent",
                "extra_args": extra,
            },
            "model_config": {
                "ar_diffusion_height": self.height,
                "ar_diffusion_width": self.width,
                "ar_diffusion_kv_config": {"gpu_memory_fraction": MEMORY_FRACTION},
            },
        }
        return {
            "pipeline": "lingbot_world",
            "async_chunk": False,
            "distributed_executor_backend": "mp",
            "dtype": "bfloat16",
            "stages": [stage],
        }

    @contextmanager
    def path(self) -> Iterator[str]:
        """A file that vLLM-Omni can read, for as long as it starts. JSON is YAML."""
        if self.file is not None:
            yield self.file
            return
        with tempfile.TemporaryDirectory(prefix="worldline-omni-") as folder:
            file = Path(folder) / "lingbot_world_ticks.yaml"
            file.write_text(json.dumps(self.as_json(), indent=1), encoding="utf-8")
            yield str(file)
