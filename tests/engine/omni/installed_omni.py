"""The installed vLLM-Omni behind a run that is recorded."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil
from vllm_omni.entrypoints.async_omni import AsyncOmni

from engine.omni.installed import published_classes


class InstalledBackstage:
    """Starts its `AsyncOmni`, and reaches for its worker process from outside."""

    def __init__(self) -> None:
        self.published = published_classes()

    def start(self, folder: Path, deployed: dict[str, Any]) -> AsyncOmni:
        file = folder / "deployment.yaml"
        file.write_text(json.dumps(deployed))  # JSON is YAML
        return AsyncOmni(model=str(folder), deploy_config=str(file))

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def freeze(self) -> None:
        self._worker().suspend()

    def thaw(self) -> None:
        self._worker().resume()
        time.sleep(1.0)

    def kill(self) -> None:
        worker = self._worker()
        worker.kill()
        worker.wait(10)
        time.sleep(1.0)

    def _worker(self) -> psutil.Process:
        """The one process of its stage."""
        (one,) = [p for p in psutil.Process().children(recursive=True) if "DiffusionWorker" in p.name()]
        return one
