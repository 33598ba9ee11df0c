"""`worldline generate` against the server's stream of the same session, chunk for chunk, after loading.

Both play `tiny` with one compute thread and write down every chunk's bytes; they alternate in one run.
"""

import asyncio
import json
import os
import statistics
import sys
import time

import torch

from app.client import Client
from app.packaging.packager import Packager
from engine.offline.video import VideoOptions, open_video
from tests.bench._server import served

CHUNKS = 24
FRAMES = 9 + 12 * (CHUNKS - 1)
ROUNDS = 5
SCENE, PROMPT, SEED = "meadow-1", "a meadow", 1
TARGET = 1.05


def offline() -> tuple[float, bytes]:
    """Seconds from the first chunk's begin to the last one's bytes, and all bytes."""
    options = VideoOptions(threads=1, scene=SCENE, prompt=PROMPT, seed=SEED, num_frames=FRAMES)
    video, packager = open_video(options), Packager("m4s")
    began = time.perf_counter()
    data = b"".join(packager.package(chunk.media).payload for chunk in video.chunks)
    return time.perf_counter() - began, data


async def streamed(url: str) -> tuple[float, bytes]:
    """The same from `session.start` to the last chunk over the socket."""
    extra = {"pace_to_media_time": False}
    async with Client(url) as client, client.socket() as stream:
        began = time.perf_counter()
        await stream.start(scene=SCENE, prompt=PROMPT, seed=SEED, num_frames=FRAMES, extra_params=extra)
        data = b"".join([(await stream.chunk()).data for _ in range(CHUNKS)])
        return time.perf_counter() - began, data


def main() -> None:
    """Print one JSON line."""
    torch.set_num_threads(1)
    os.environ["WORLDLINE_THREADS"] = "1"
    generated, served_ = [], []
    with served() as url:
        for _ in range(ROUNDS + 1):
            seconds, data = offline()
            generated.append(seconds)
            seconds, stream = asyncio.run(streamed(url))
            served_.append(seconds)
            assert data == stream, "both give the same bytes"
    ours, theirs = statistics.median(generated[1:]), statistics.median(served_[1:])
    figures = {
        "bench": "generate",
        "generate_chunk_ms": round(ours / CHUNKS * 1000, 2),
        "server_chunk_ms": round(theirs / CHUNKS * 1000, 2),
        "ratio": round(ours / theirs, 3),
        "chunks": CHUNKS,
        "threads": 1,
        "rounds": ROUNDS,
        "seed": SEED,
        "target_ratio": TARGET,
        "ok": ours / theirs <= TARGET,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
