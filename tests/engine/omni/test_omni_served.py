"""Sessions on a stand-in for vLLM-Omni behind a real server: clients see what they always see."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch

from app.bootstrap import build_engine, build_snapshots
from app.client import ServerError
from app.settings import Settings
from engine.api import EngineError
from engine.omni.host import OmniHost
from engine.omni.installed import InstalledOmni
from engine.worker.local import LocalEngine
from tests.app.conftest import Running, running
from tests.engine.native.small_checkpoint import write_checkpoint
from tests.engine.omni.stand_in_omni import STAND_INS, StandInOmni

WALK = {"scene": "meadow", "prompt": "a meadow", "seed": 7, "format": "annexb", "mode": "stepped"}


@pytest.fixture
def client() -> StandInOmni:
    return StandInOmni()


@pytest.fixture
async def server(tmp_path: Path, client: StandInOmni) -> AsyncIterator[Running]:
    host = OmniHost(
        write_checkpoint(tmp_path / "small"),
        torch.device("cpu"),
        3,
        None,
        1.0,
        lambda _, timeout: InstalledOmni(client, STAND_INS, timeout),
    )
    async with running(LocalEngine(host)) as started:
        yield started
    host.stop()


async def undisturbed(server: Running, chunks: int) -> list[bytes]:
    await server.client.create(**WALK, session_id="calm")
    return [(await server.client.run_chunk("calm")).data for _ in range(chunks)]


async def test_a_cancelled_chunk_leaves_the_session_where_it_was(
    server: Running, client: StandInOmni
) -> None:
    await server.client.create(**WALK, session_id="walk")
    data = [(await server.client.run_chunk("walk")).data for _ in range(2)]
    client.hanging = True
    running_chunk = asyncio.create_task(server.client.run_chunk("walk"))
    await server.until(lambda: server.edge.engine.status().queue_depth)
    await server.client.call("POST", "/v1/sessions/walk/cancel")
    with pytest.raises(ServerError) as cancelled:
        await running_chunk
    assert cancelled.value.code == "chunk_cancelled"
    client.hanging = False
    data.append((await server.client.run_chunk("walk")).data)
    assert data == await undisturbed(server, 3)


async def test_a_fork_is_made_from_its_ticks(server: Running) -> None:
    await server.client.create(**WALK, session_id="walk")
    data = [(await server.client.run_chunk("walk")).data for _ in range(2)]
    await server.client.call("POST", "/v1/sessions/walk/fork", {"session_id": "other"})
    data.append((await server.client.run_chunk("other")).data)
    assert data == await undisturbed(server, 3)


async def test_a_block_that_fails_fails_the_session_until_its_reset(
    server: Running, client: StandInOmni
) -> None:
    await server.client.create(**WALK, session_id="walk")
    first = (await server.client.run_chunk("walk")).data
    client.output_faults.append(_fail)
    with pytest.raises(ServerError, match="CUDA out of memory") as failed:
        await server.client.run_chunk("walk")
    assert failed.value.code == "session_failed"
    await server.client.call("POST", "/v1/sessions/walk/reset", {"resume": True})
    assert (await server.client.run_chunk("walk")).data == first


async def test_a_bad_control_is_refused_at_acceptance_and_asks_vllm_omni_nothing(
    server: Running, client: StandInOmni
) -> None:
    await server.client.create(**WALK, session_id="walk")
    controls = [{"track": "camera", "schema": "lingbot.camera_actions.v1", "data": {"mode": "fly"}}]
    with pytest.raises(ServerError) as refused:
        await server.client.call("POST", "/v1/sessions/walk/events", {"event_id": 1, "controls": controls})
    assert refused.value.code == "invalid_control"
    assert client.asked == []


def _fail(output: Any) -> None:
    output.error, output.multimodal_output = "CUDA out of memory", {}


async def test_without_the_package_the_server_says_what_to_install(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "small")
    if importlib.util.find_spec("vllm_omni") is not None:
        pytest.skip("vLLM-Omni is installed")
    engine = build_engine(Settings(engine="vllm-omni", model=str(folder)))
    with pytest.raises(EngineError, match=r"vLLM-Omni can't be used: .*pip install 'worldline\[omni\]'"):
        await engine.start()
    await engine.stop()


def test_there_are_no_snapshots_of_its_worlds(tmp_path: Path) -> None:
    assert build_snapshots(Settings(engine="vllm-omni", data=tmp_path)) is None
    assert build_snapshots(Settings(data=tmp_path)) is not None
