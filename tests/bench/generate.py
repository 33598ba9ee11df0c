"""`worldline generate` against the server's stream of the same session, chunk for chunk, after loading.

Both play `tiny` with one compute thread and write down every chunk's bytes; they alternate in one run. Two
things are compared: everything from the order to the last chunk's bytes, and what a chunk takes once the
first is there. The first holds what a session costs beside its chunks (a handshake, opening it, its journal),
which `generate` has no counterpart of. Both sides are processes and sessions of their own, so that a
scheduler that shares cores among sessions shares them alike; they are started anew some times, as one process
computes 1 to 2% faster than the next one for as long as it lives; and each plays two chunks just before it
is timed, as what has been idle for some seconds begins slower.
"""

import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from app.client import Client
from app.packaging.packager import Packager
from engine.offline.video import VideoOptions, open_video
from tests.bench._server import served

CHUNKS = int(os.environ.get("CHUNKS", "96"))
WARM_UP = 2
STARTS = int(os.environ.get("STARTS", "4"))  # of both sides
ROUNDS = int(os.environ.get("ROUNDS", "4"))  # of each start
SCENE, PROMPT, SEED = "meadow-1", "a meadow", 1
TARGET = 0.05


@dataclass
class Played:
    """When each chunk's bytes were there, in seconds since the order, and the digest of them all."""

    times: list[float]
    digest: str

    @property
    def whole(self) -> float:
        """Seconds per chunk, from the order on."""
        return self.times[-1] / CHUNKS

    @property
    def steady(self) -> float:
        """Seconds per chunk between the first and the last but one: `generate` hands a chunk over when the
        next one was computed, and the last two at once.
        """
        return (self.times[-2] - self.times[0]) / (CHUNKS - 2)


def frames_of(chunks: int) -> int:
    """How many frames so many chunks have."""
    return 9 + 12 * (chunks - 1)


def offline(chunks: int) -> Played:
    """With a loaded model."""
    options = VideoOptions(threads=1, scene=SCENE, prompt=PROMPT, seed=SEED, num_frames=frames_of(chunks))
    video, packager = open_video(options), Packager("m4s")
    began, times, data = time.perf_counter(), [], b""
    for chunk in video.chunks:
        data += packager.package(chunk.media).payload
        times.append(time.perf_counter() - began)
    return Played(times, hashlib.sha256(data).hexdigest())


def serve_offline() -> None:
    """Play once for every line that comes; answer with a line of JSON."""
    torch.set_num_threads(1)
    for _ in sys.stdin:
        offline(WARM_UP)
        played = offline(CHUNKS)
        sys.stdout.write(json.dumps([played.times, played.digest]) + "\n")
        sys.stdout.flush()


@contextmanager
def offline_process() -> Iterator[Callable[[], Played]]:
    """What plays once in a process of its own."""
    command = [sys.executable, "-c", "from tests.bench.generate import serve_offline; serve_offline()"]
    root = Path(__file__).resolve().parents[2]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=root, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asking, answers = process.stdin, process.stdout

        def play() -> Played:
            asking.write("play\n")
            asking.flush()
            return Played(*json.loads(answers.readline()))

        yield play
        asking.close()


def streaming(url: str) -> Played:
    """What a server that was just used plays."""
    asyncio.run(streamed(url, WARM_UP))
    return asyncio.run(streamed(url, CHUNKS))


async def streamed(url: str, chunks: int) -> Played:
    """Over the socket, as fast as it goes."""
    extra = {"pace_to_media_time": False}
    async with Client(url) as client, client.socket() as stream:
        began, times, data = time.perf_counter(), [], b""
        await stream.start(
            scene=SCENE, prompt=PROMPT, seed=SEED, num_frames=frames_of(chunks), extra_params=extra
        )
        for _ in range(chunks):
            data += (await stream.chunk()).data
            times.append(time.perf_counter() - began)
        return Played(times, hashlib.sha256(data).hexdigest())


def both(play: Callable[[], Played], url: str, offline_first: bool) -> tuple[Played, Played]:
    """Offline and streamed, in either order: A B B A, as a machine's pace drifts."""
    if offline_first:
        played = play()
        return played, streaming(url)
    played = streaming(url)
    return play(), played


def main() -> None:
    """Print one JSON line."""
    os.environ["WORLDLINE_THREADS"] = "1"
    pairs: list[tuple[Played, Played]] = []
    for _ in range(STARTS):
        with served() as url, offline_process() as play:
            for number in range(ROUNDS + 1):
                pair = both(play, url, offline_first=number % 2 == 0)
                assert pair[0].digest == pair[1].digest, "both give the same bytes"
                if number:  # the first round warms up
                    pairs.append(pair)
    ratio = statistics.median(offline.whole / server.whole for offline, server in pairs)
    steady_ratio = statistics.median(offline.steady / server.steady for offline, server in pairs)
    whole = [statistics.median(pair[side].whole for pair in pairs) for side in (0, 1)]
    steady = [statistics.median(pair[side].steady for pair in pairs) for side in (0, 1)]
    figures = {
        "bench": "generate",
        "generate_chunk_ms": round(whole[0] * 1000, 2),
        "server_chunk_ms": round(whole[1] * 1000, 2),
        "ratio": round(ratio, 3),
        "generate_steady_ms": round(steady[0] * 1000, 2),
        "server_steady_ms": round(steady[1] * 1000, 2),
        "steady_ratio": round(steady_ratio, 3),
        "server_first_ms": round(statistics.median(pair[1].times[0] for pair in pairs) * 1000, 1),
        "generate_first_ms": round(statistics.median(pair[0].times[0] for pair in pairs) * 1000, 1),
        "chunks": CHUNKS,
        "threads": 1,
        "starts": STARTS,
        "rounds": ROUNDS,
        "seed": SEED,
        "target_difference": TARGET,
        "ok": abs(ratio - 1) <= TARGET,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
