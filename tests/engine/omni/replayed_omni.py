"""What vLLM-Omni answered once, answered again: `record_answers` has asked it, `tests/data/omni` holds it."""

from __future__ import annotations

import asyncio
import builtins
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from safetensors.torch import load_file
from torch import Tensor

from engine.omni.deployment import STAGE
from engine.omni.installed import Published
from tests.engine.omni.recording import plain, request, same

FOLDER: Final = Path(__file__).resolve().parents[2] / "data" / "omni"


@cache
def recorded() -> dict[str, Any]:
    """The record: `starts` with their `deployment` and `cases`, and how it was made."""
    return dict(json.loads((FOLDER / "answers.json").read_text(encoding="utf-8")))


@cache
def latents() -> dict[str, Tensor]:
    """The answered latents, fp32 [1, 16, 3, h, w], by the names that the record has for them."""
    return load_file(FOLDER / "answers.safetensors")


class ReplayedBackstage:
    """Answers calls in the order in which they were recorded, and asserts that they are the same calls."""

    def __init__(self, cases: list[dict[str, Any]], published: Published) -> None:
        self.published = published
        self._calls = deque(call for case in cases for call in case["calls"])

    @property
    def over(self) -> bool:
        """Whether every recorded call has come."""
        return not self._calls

    def start(self, folder: Path, deployed: dict[str, Any]) -> ReplayedOmni:
        return ReplayedOmni(self._calls, deployed["stages"][STAGE].get("num_replicas", 1))

    def pause(self, seconds: float) -> None:
        """Nothing goes on behind a record."""

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def kill(self) -> None: ...


class ReplayedOmni:
    """In `AsyncOmni`'s place."""

    def __init__(self, calls: deque[dict[str, Any]], replicas: int) -> None:
        self.engine = SimpleNamespace(stage_pools=[SimpleNamespace(num_replicas=replicas)])
        self._calls = calls

    async def generate(
        self, prompt: Any, *, request_id: str, sampling_params_list: Any, **rest: Any
    ) -> AsyncIterator[Any]:
        """As `AsyncOmni.generate`."""
        call = self._next("generate", request(prompt, request_id, sampling_params_list, rest))
        for output in call["outputs"]:
            yield _output(output)
        await _raise(call)

    async def collective_rpc(self, method: str, **rest: Any) -> Any:
        """As `AsyncOmni.collective_rpc`."""
        call = self._next("collective_rpc", {"method": method, **plain(rest)})
        await _raise(call)
        return call["answer"]

    async def check_health(self) -> None:
        """As `AsyncOmni.check_health`."""
        await _raise(self._next("check_health", {}))

    def shutdown(self) -> None: ...

    def _next(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._calls, f"nothing was recorded behind the last call; now: {name} {asked}"
        call = self._calls.popleft()
        assert call["call"] == name and same(call["asked"], asked), (
            f"recorded was {call}; now: {name} {asked}"
        )
        return call


async def _raise(call: Mapping[str, Any]) -> None:
    error = call.get("raised")
    if error is None:
        return
    module, _, name = error["type"].rpartition(".")
    if name == "CancelledError":
        await asyncio.Event().wait()  # it was computing when it was cancelled, and will be again
    kind = getattr(builtins, name) if not module else type(name, (Exception,), {"__module__": module})
    raise kind(error["text"])


def _output(recorded: Mapping[str, Any]) -> Any:
    """An `OmniRequestOutput`: what was empty or None there is here."""
    empty = {"error": None, "latents": None, "images": [], "multimodal_output": {}}
    images = [latents()[one["tensor"]] for one in recorded["images"]]
    return SimpleNamespace(**empty | recorded | {"images": images})
