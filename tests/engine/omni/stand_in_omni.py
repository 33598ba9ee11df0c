"""Stand-ins for vLLM-Omni that can be told to fail: its published classes, and a client that keeps sessions.

The classes are written after the names, fields and documents of 0.30's `experimental.ar_diffusion`. Where the
package is installed, its own classes take their place. `test_omni_recorded` holds both beside the record.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.omni.deployment import STAGE
from engine.omni.installed import Published, published_classes


@dataclass(frozen=True)
class Control:
    track: str
    schema: str
    data: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"track": self.track, "schema": self.schema, "data": dict(self.data)}


@dataclass(frozen=True)
class Tick:
    session_id: str
    request_id: str
    chunk_index: int
    applied_event_ids: tuple[int, ...] = ()
    prompt: str | None = None
    controls: tuple[Control, ...] = ()
    reset: bool = False
    close_session: bool = False

    def to_extra_args(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"ar_diffusion_tick": {**own, "controls": [one.to_dict() for one in self.controls]}}


@dataclass
class Sampling:
    output_type: str | None = None
    seed: int | None = None
    num_frames: int = 1
    height: int | None = None
    width: int | None = None
    num_inference_steps: int | None = None
    extra_args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metadata:
    session_id: str
    request_id: str
    chunk_index: int
    applied_event_ids: tuple[int, ...] = ()


class Consumer:
    def __init__(
        self,
        engine_client: Any,
        *,
        prompt_provider: Callable[[Any], Any],
        sampling_params_list: Sequence[Any],
        diffusion_stage_id: int,
        output_modalities: Sequence[str] | None = None,
    ) -> None:
        self.client, self.provider = engine_client, prompt_provider
        self.sampling, self.stage = sampling_params_list, diffusion_stage_id
        self.modalities = output_modalities
        replicas = self.client.engine.stage_pools[self.stage].num_replicas
        if replicas != 1:
            raise ValueError(
                "AR-Diffusion realtime sessions currently require exactly one replica for the selected "
                "diffusion stage; session-affine routing is not implemented "
                f"(got num_replicas={replicas})."
            )

    async def execute_tick(self, tick: Tick) -> Any:
        given = [copy.deepcopy(one) for one in self.sampling]
        given[self.stage].extra_args |= tick.to_extra_args()
        last = None
        async for output in self.client.generate(
            self.provider(tick),
            request_id=tick.request_id,
            sampling_params_list=given,
            output_modalities=self.modalities,
        ):
            last = output
        assert last is not None
        if last.error is not None:
            raise RuntimeError(f"AR-Diffusion tick {tick.request_id!r} failed: {last.error}")
        return last

    def chunk_metadata(self, output: Any) -> Metadata:
        metadata = output.multimodal_output.get("metadata")
        if not isinstance(metadata, Mapping):
            raise ValueError("AR-Diffusion output must contain multimodal_output.metadata.")
        told = metadata["ar_diffusion"]
        return Metadata(**{**told, "applied_event_ids": tuple(told["applied_event_ids"])})


class Lifecycle:
    def __init__(self, rpc_client: Any, *, stage_ids: Sequence[int], timeout: float | None = None) -> None:
        self.client, self.stages, self.timeout = rpc_client, list(stage_ids), timeout

    async def reset_session(self, session_id: str) -> None:
        await self.invoke("reset_ar_diffusion_session", session_id)

    async def close_session(self, session_id: str) -> None:
        await self.invoke("close_ar_diffusion_session", session_id)

    async def invoke(self, method: str, session_id: str) -> None:
        results = await self.client.collective_rpc(
            method, timeout=self.timeout, args=(session_id,), stage_ids=self.stages
        )
        for refused in results:
            if isinstance(refused, Mapping):
                unsupported = "target stage does not support this lifecycle RPC"
                raise RuntimeError(f"{method} failed: {refused.get('error', unsupported)}")
        if not results or not all(done is True for workers in results for done in workers):
            raise RuntimeError(f"{method} is not supported by every selected worker.")


STAND_INS = Published(Tick, Control, Consumer, Lifecycle, Sampling)


def published(kind: str) -> Published:
    """Ours, or the installed package's own; skips where that is missing."""
    if kind == "stand-ins":
        return STAND_INS
    if importlib.util.find_spec("vllm_omni") is None:
        pytest.skip("needs the extra `omni`")
    return published_classes()


class StandInOmni:
    """The client, `AsyncOmni`'s part: answers by what it was asked, session by session, as the pipeline does.

    `output_faults` change the next outputs, `rpc_answers` are what the worker says to the next calls; while
    `hanging`, no tick is answered until `hang` is set. One that is cancelled is computed all the same.
    """

    def __init__(self, replicas: int = 1) -> None:
        pool = SimpleNamespace(num_replicas=replicas)
        self.engine = SimpleNamespace(stage_pools=[pool], num_stages=1)
        self.num_stages = 1
        self.next: dict[str, int] = {}
        self.asked: list[dict[str, Any]] = []
        self.prompts: list[Mapping[str, Any]] = []
        self.sampling: list[Any] = []
        self.calls: list[tuple[str, str, float | None]] = []
        self.output_faults: list[Callable[[Any], None]] = []
        self.rpc_answers: list[Any] = []
        self.hang = asyncio.Event()
        self.hanging = False
        self.aborted = 0
        self.alive = True

    async def generate(
        self, prompt: Any, *, request_id: str, sampling_params_list: Sequence[Any], **rest: Any
    ) -> AsyncIterator[Any]:
        tick = sampling_params_list[STAGE].extra_args["ar_diffusion_tick"]
        session, index = tick["session_id"], tick["chunk_index"]
        if not self.alive:
            raise RuntimeError("Stage-0 has no live replica")
        self.asked.append(tick)
        self.prompts.append(prompt)
        self.sampling.append(sampling_params_list[STAGE])
        expected = self.next.pop(session, 0)
        if index != expected:
            raise RuntimeError(
                f"LingBot chunk_index must be contiguous within a session: expected {expected}, got {index}."
            )
        self.next[session] = index + 1
        try:
            if self.hanging:
                await self.hang.wait()
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        output = output_of(tick, latents_of(tick, sampling_params_list[STAGE]))
        if self.output_faults:
            self.output_faults.pop(0)(output)
        yield output

    async def collective_rpc(
        self,
        method: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the published name
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        stage_ids: list[int] | None = None,
    ) -> list[Any]:
        self.calls.append((method, args[0], timeout))
        if not self.alive:
            return []
        answer = self.rpc_answers.pop(0) if self.rpc_answers else [True]
        if isinstance(answer, Exception):
            raise answer
        if answer == [True]:  # of each worker of the stage
            self.next.pop(args[0], None)
        return [answer]

    async def check_health(self) -> None:
        if not self.alive:
            raise RuntimeError("Stage-0 has no live replica")

    def shutdown(self) -> None:
        self.alive = False


class StandInBackstage:
    """Has a stand-in where a run wants vLLM-Omni."""

    published = STAND_INS

    def start(self, folder: Path, deployed: Mapping[str, Any]) -> StandInOmni:
        return StandInOmni()

    def pause(self, seconds: float) -> None: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def kill(self) -> None: ...


def output_of(tick: Mapping[str, Any], latents: Tensor) -> Any:
    """An `OmniRequestOutput`: its published fields that anybody reads."""
    names = ("session_id", "request_id", "chunk_index", "applied_event_ids")
    return SimpleNamespace(
        request_id=tick["request_id"],
        finished=True,
        stage_id=STAGE,
        replica_id=0,
        is_diffusion_output=True,
        num_images=1,
        final_output_type="video",
        latents=None,
        images=[latents],
        error=None,
        multimodal_output={"metadata": {"ar_diffusion": {name: tick[name] for name in names}}},
    )


def latents_of(tick: Mapping[str, Any], sampling: Any) -> Tensor:
    """Noise that follows from all that a block follows from, so that a replay that differs shows."""
    words = f"{sampling.seed} {tick['chunk_index']} {tick['prompt']} {tick['controls']}"
    seed = zlib.crc32(words.encode())
    shape = (1, 16, 3, sampling.height // 8, sampling.width // 8)
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))
