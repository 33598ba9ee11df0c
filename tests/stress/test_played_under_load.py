"""The real model through the real socket: what a session shows depends on its seed and its inputs alone."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from growth import scales
from small_checkpoint import write_checkpoint

from app.bootstrap import NATIVE_HOST
from app.client import Chunk, Client, ServerError, Stream
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from tests.app.running_server import running

KEYS = ("w", "j", "d", "i", "s", "l", "a", "k")
FREE = {"pace_to_media_time": False}
CHUNKS = 5


def engine(model: str) -> ProcessEngine:
    return ProcessEngine(Boot(NATIVE_HOST, {"model": model, "threads": 1}), {"OMP_NUM_THREADS": "1"})


async def until_chunk(stream: Stream, index: int) -> Chunk:
    chunk = await stream.chunk()
    while chunk.metadata["transport_chunk_index"] < index:
        chunk = await stream.chunk()
    return chunk


async def walk(client: Client, seed: int, chunks: int) -> list[bytes]:
    """A stepped walk whose inputs follow from the seed."""
    async with client.stream(prompt=f"place {seed}", seed=seed, mode="stepped", format="annexb") as stream:
        seen = []
        for number in range(chunks):
            held = KEYS[(seed + number) % len(KEYS)]
            prompt = f"place {seed}, {number}" if number % 3 == 2 else None
            data = {"mode": "state", "transitions": [{"actions": [held]}]}
            camera = {"schema": "lingbot.camera_actions.v1", "data": data}
            await stream.interact(prompt=prompt, camera=camera, event_id=f"{number}")
            seen.append((await until_chunk(stream, number)).data)
        await stream.send("session.close")
        return seen


async def disturb(client: Client, dice: random.Random) -> None:
    """Come, play, cancel, reset, and leave in the middle of it, again and again, until cancelled."""
    while True:
        with suppress(ServerError):
            async with client.stream(prompt="noise", seed=1, extra_params=FREE) as stream:
                for _ in range(dice.randrange(1, 4)):
                    await stream.send(dice.choice(["session.cancel", "session.reset", "session.ping"]))
                    await stream.keys(dice.choice(KEYS))
                    with suppress(TimeoutError):
                        async with asyncio.timeout(dice.random()):
                            await stream.chunk()
                stream.socket.transport.abort()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sessions", scales(3, 12))
async def test_sessions_side_by_side_under_load_show_the_bytes_of_sessions_alone(
    sessions: int, tmp_path: Path
) -> None:
    chunks = CHUNKS if sessions < 6 else 24
    model = str(write_checkpoint(tmp_path)) if sessions < 6 else "tiny"
    options = {"resume_grace_s": 0.0, "after_grace": "close"}
    async with running(engine(model), **options) as server:
        alone = [await walk(server.client, seed, chunks) for seed in range(sessions)]
        noise = [asyncio.create_task(disturb(server.client, random.Random(number))) for number in range(2)]
        together = await asyncio.gather(*(walk(server.client, seed, chunks) for seed in range(sessions)))
        assert not any(task.done() for task in noise)
        for task in noise:
            task.cancel()
        await asyncio.gather(*noise, return_exceptions=True)
        assert together == alone
        assert len({data for walked in alone for data in walked}) == sessions * chunks


def script(yaw_at: int | None) -> dict[str, Any]:
    """Stand still, and look left from the chunk on."""
    keys = [[["j"] if yaw_at is not None and index >= yaw_at else []] * 3 for index in range(CHUNKS)]
    return {"camera_action_script": keys, **FREE}


async def scripted(client: Client, yaw_at: int | None) -> list[bytes]:
    frames = 9 + 12 * (CHUNKS - 1)
    fields = {"prompt": "a meadow", "seed": 3, "format": "annexb", "num_frames": frames}
    async with client.stream(**fields, extra_params=script(yaw_at)) as stream:
        return [(await stream.chunk()).data for _ in range(CHUNKS)]


async def stepped(client: Client, yaw_at: int | None) -> list[bytes]:
    fields = {"prompt": "a meadow", "seed": 3, "format": "annexb", "mode": "stepped"}
    async with AsyncExitStack() as stack:
        stream = await stack.enter_async_context(client.stream(**fields))
        seen = []
        for number in range(CHUNKS):
            held = ["j"] if yaw_at is not None and number >= yaw_at else []
            await stream.keys(*held, event_id=f"step {number}")
            chunk = await until_chunk(stream, number)
            assert chunk.metadata["started_event_ids"] == [f"step {number}"]
            seen.append(chunk.data)
        return seen


def first_difference(one: list[bytes], other: list[bytes]) -> int | None:
    pairs = enumerate(itertools.zip_longest(one, other))
    return next((index for index, (mine, theirs) in pairs if mine != theirs), None)


async def test_a_yaw_at_a_chunk_first_changes_the_picture_of_that_very_chunk() -> None:
    async with running(engine("tiny")) as server:
        for play, moments in ((scripted, (0, 2)), (stepped, (3,))):
            still = await play(server.client, None)
            for yaw_at in moments:
                assert first_difference(still, await play(server.client, yaw_at)) == yaw_at
