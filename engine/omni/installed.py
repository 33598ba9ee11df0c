"""The installed vLLM-Omni (extra `omni`), through its AR-diffusion tick consumer and worker lifecycle.

Its interface as published with 0.30: `experimental.ar_diffusion` and the design page "Realtime AR-Diffusion
sessions"; what it answers is recorded in `tests/data/omni`. Nothing is imported before `connect` is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from PIL import Image
from torch import Tensor

from engine.omni.deployment import STAGE, Deployment
from engine.omni.service import Echo, OmniChunk, OmniFailed, OmniTick, Opening

T = TypeVar("T")

FRAMES: Final = 9  # of the request that carries a tick: the shortest that the pipeline knows, one block


class Client(Protocol):
    """Of `AsyncOmni`, what is used beside the parts that are given it."""

    async def check_health(self) -> None:
        """Raise where its processes are gone."""

    def shutdown(self) -> None:
        """End them."""


@dataclass(frozen=True, slots=True)
class Published:
    """The classes of vLLM-Omni that a tick passes through."""

    tick: Callable[..., Any]  # ARDiffusionTickRequest
    control: Callable[..., Any]  # ARDiffusionControlInput
    consumer: Callable[..., Any]  # ARDiffusionOmniTickConsumer
    lifecycle: Callable[..., Any]  # ARDiffusionWorkerLifecycle
    sampling: Callable[..., Any]  # OmniDiffusionSamplingParams


class InstalledOmni:
    """Implements `Omni` over an `AsyncOmni`. `timeout_s` is for resets and closes."""

    def __init__(self, client: Client, published: Published, timeout_s: float) -> None:
        self._client = client
        self._published = published
        self._lifecycle = published.lifecycle(client, stage_ids=(STAGE,), timeout=timeout_s)
        self._stopped = False

    async def run_tick(self, opening: Opening, tick: OmniTick) -> OmniChunk:
        """See `Omni.run_tick`. What vLLM-Omni says is told as it is, before anything is checked here."""
        consumer, request = self._consumer(opening), self._request(tick)
        output = await _told(consumer.execute_tick(request))
        if output.error is not None:
            raise OmniFailed(str(output.error))
        with _in_its_words():
            metadata = consumer.chunk_metadata(output)
        return OmniChunk(_echo(metadata), _latents(output))

    async def reset_session(self, session_id: str) -> None:
        """See `Omni.reset_session`."""
        await _told(self._lifecycle.reset_session(session_id))

    async def close_session(self, session_id: str) -> None:
        """See `Omni.close_session`."""
        await _told(self._lifecycle.close_session(session_id))

    async def check(self) -> None:
        """See `Omni.check`; also where its consumer refuses the deployment, e.g. for two replicas."""
        await _told(self._client.check_health())
        self._consumer(Opening(np.zeros((16, 16, 3), np.uint8), seed=0, flow_shift=None, steps=1))

    def stop(self) -> None:
        """See `Omni.stop`."""
        if not self._stopped:
            self._stopped = True
            self._client.shutdown()

    def _consumer(self, opening: Opening) -> Any:
        with _in_its_words():
            return self._published.consumer(
                self._client,
                prompt_provider=lambda asked: {
                    "prompt": asked.prompt,
                    "multi_modal_data": {"image": Image.fromarray(opening.image)},
                },
                sampling_params_list=[self._sampling(opening)],
                diffusion_stage_id=STAGE,
            )

    def _request(self, tick: OmniTick) -> Any:
        with _in_its_words():
            control = self._published.control(
                track=tick.control.track, schema=tick.control.schema, data=tick.control.data
            )
            return self._published.tick(
                session_id=tick.echo.session_id,
                request_id=tick.echo.request_id,
                chunk_index=tick.echo.chunk_index,
                applied_event_ids=tick.echo.event_ids,
                prompt=tick.prompt,
                controls=(control,),
            )

    def _sampling(self, opening: Opening) -> Any:
        extra = {} if opening.flow_shift is None else {"flow_shift": opening.flow_shift}
        return self._published.sampling(
            output_type="latent",
            seed=opening.seed,
            width=opening.width,
            height=opening.height,
            num_frames=FRAMES,
            num_inference_steps=opening.steps,
            extra_args=extra,
        )


def connect(deployment: Deployment, timeout_s: float) -> InstalledOmni:
    """Start vLLM-Omni and wait until its model is loaded. Raises `OmniFailed`."""
    try:
        from vllm_omni.entrypoints.async_omni import AsyncOmni

        published = published_classes()
    except ImportError as missing:
        raise OmniFailed(f"vLLM-Omni can't be used: {missing}; pip install 'worldline[omni]'") from missing
    with deployment.path() as path:
        client = AsyncOmni(model=str(deployment.folder), deploy_config=path)
    return InstalledOmni(client, published, timeout_s)


def published_classes() -> Published:
    """Those of the installed package. Raises `ImportError`."""
    from vllm_omni.experimental.ar_diffusion.consumer import ARDiffusionOmniTickConsumer
    from vllm_omni.experimental.ar_diffusion.session import ARDiffusionWorkerLifecycle
    from vllm_omni.experimental.ar_diffusion.tick_protocol import (
        ARDiffusionControlInput,
        ARDiffusionTickRequest,
    )
    from vllm_omni.inputs.data import OmniDiffusionSamplingParams

    return Published(
        ARDiffusionTickRequest,
        ARDiffusionControlInput,
        ARDiffusionOmniTickConsumer,
        ARDiffusionWorkerLifecycle,
        OmniDiffusionSamplingParams,
    )


async def _told(work: Awaitable[T]) -> T:
    with _in_its_words():
        return await work


@contextmanager
def _in_its_words() -> Iterator[None]:
    """What vLLM-Omni raises becomes an `OmniFailed` that says the same."""
    try:
        yield
    except Exception as error:
        raise OmniFailed(str(error) or type(error).__name__) from error


def _echo(metadata: Any) -> Echo:
    return Echo(
        str(metadata.session_id),
        str(metadata.request_id),
        int(metadata.chunk_index),
        tuple(metadata.applied_event_ids),
    )


def _latents(output: Any) -> Tensor:
    """Those of an `OmniRequestOutput`: with `output_type: latent` they lie where pictures do, and alone."""
    tensors = [one for one in output.images if isinstance(one, Tensor)]
    if len(tensors) != 1:
        raise OmniFailed(f"vLLM-Omni answered {len(tensors)} latent tensors, expected one")
    return tensors[0].detach().float()
