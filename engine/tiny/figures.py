"""Measures the served tiny world against its renderer: `python -m engine.tiny.figures [checkpoint folder]`.

Prints one JSON line per figure, with what it must reach. Everything goes through the classes that serve.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from engine.checkpoint.load import load_model
from engine.media.chunk import encode_chunk
from engine.tiny.frames import HELD_OUT, clip, psnr, to_float
from engine.tiny.places import METRES_PER_UNIT, PERIOD, PLACES
from engine.tiny.visits import (
    STARTS,
    Pixels,
    Start,
    as_float,
    by_chunk,
    decibels,
    letters,
    picture,
    random_keys,
    sharpness,
    truth_of,
    visit,
    walk_from,
)
from engine.tiny.walks import pixel_stances, stance_of
from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import open_world

CHECKPOINT = Path(__file__).resolve().parents[2] / "checkpoints" / "tiny"
WALKS, BLOCKS, LONG_WALKS, LONG_BLOCKS = 16, 8, 10, 60
LONG_TAIL = 144  # the last frames of a long walk that are compared
RATE_BLOCKS = 24
FPS = 16


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: what was measured (a number, or one per chunk), what it must reach, and whether it does."""

    figure: str
    value: object
    required: str
    reached: bool

    def json_line(self) -> str:
        """As `make bench` prints it."""
        return json.dumps({"bench": "tiny", **asdict(self)})


def codec_figure(model: Model) -> Figure:
    """Reconstruction of held-out clips."""
    values = []
    for number in range(24):
        video = to_float(clip(HELD_OUT, 3_000_000 + number, 5).frames)[None]
        latents, _ = model.codec.encode(video)
        values.append(psnr(model.codec.decode(latents)[0], video))
    value = round(float(np.mean(values)), 2)
    return Figure("codec_psnr_db", value, ">= 28", value >= 28)


@dataclass(frozen=True, slots=True)
class Visit:
    """One held-out walk: truth, what the world showed, and what it showed with mirrored keys."""

    start: Start
    truth: Pixels
    shown: Pixels
    mirrored: Pixels


def held_out_visits(model: Model) -> list[Visit]:
    """`WALKS` walks of `BLOCKS` chunks, the scenes in turn."""
    visits = []
    for number in range(WALKS):
        start = STARTS[number % len(STARTS)]
        keys = random_keys((HELD_OUT, 4_000_000 + number), BLOCKS)
        truth = truth_of(start, walk_from(start, keys))
        visits.append(
            Visit(start, truth, visit(model, start, keys, number), visit(model, start, -keys, number))
        )
    return visits


def walk_figures(visits: list[Visit]) -> Iterator[Figure]:
    """Free-running PSNR against three cheaper answers, and sharpness."""
    shown = per_chunk(visits, lambda v: v.shown)
    first = per_chunk(visits, lambda v: np.broadcast_to(v.truth[:1], v.truth.shape))
    means = [mean_picture(place) for place in range(len(PLACES))]
    mean = per_chunk(visits, lambda v: np.broadcast_to(means[v.start.place], v.truth.shape))
    mirrored = per_chunk(visits, lambda v: v.mirrored)
    yield Figure("free_running_psnr_db", shown, "reported", True)
    yield over("over_first_frame_db", shown, first, 3.0, BLOCKS)
    yield over("over_mean_picture_db", shown, mean, 2.0, BLOCKS)
    yield over("right_over_mirrored_db", shown, mirrored, 3.0, 4)
    last = float(np.mean([sharpness(v.shown[-12:]) / sharpness(v.truth[-12:]) for v in visits]))
    yield Figure("sharpness_at_chunk_8", round(last, 3), ">= 0.7", last >= 0.7)


def per_chunk(visits: list[Visit], answer: Callable[[Visit], Pixels]) -> list[float]:
    """Mean PSNR of each chunk."""
    rows = [
        [decibels(a, b) for a, b in zip(by_chunk(answer(v)), by_chunk(v.truth), strict=True)] for v in visits
    ]
    return [round(float(value), 2) for value in np.mean(rows, axis=0)]


def over(name: str, shown: list[float], other: list[float], least: float, chunks: int) -> Figure:
    """By how much `shown` is better, chunk by chunk."""
    margin = [round(a - b, 2) for a, b in zip(shown, other, strict=True)][:chunks]
    return Figure(name, margin, f">= {least:g} in chunks 1..{chunks}", min(margin) >= least)


@cache
def mean_picture(place: int, count: int = 384) -> Pixels:
    """The mean of a place's pictures from everywhere: [1, H, W, 3]."""
    rng = np.random.default_rng(place)
    side = PERIOD / METRES_PER_UNIT
    stances = np.stack(
        [
            rng.uniform(0, side, count),
            rng.uniform(0, side, count),
            rng.uniform(0, 6.2832, count),
            0 * np.ones(count),
        ],
        1,
    )
    return as_bytes(as_float(picture(PLACES[place], stances)).mean(dim=0, keepdim=True))


def as_bytes(frames: torch.Tensor) -> Pixels:
    """0..1 -> uint8."""
    out: Pixels = (frames * 255).round().to(torch.uint8).numpy()
    return out


DIRECTIONS = {"forward": (1, 0, 0, 0), "back": (-1, 0, 0, 0), "left": (0, 0, -1, 0), "right": (0, 0, 1, 0)}


def direction_figure(model: Model) -> Figure:
    """Forward, back, left and right for two chunks from ten scenes: which of the four does it look like?"""
    told = 0
    for start in STARTS[:10]:
        keys = {name: np.tile(np.array(row), (2 * 3, 1)) for name, row in DIRECTIONS.items()}
        truths = {name: truth_of(start, walk_from(start, k)) for name, k in keys.items()}
        for name in DIRECTIONS:
            shown = visit(model, start, keys[name])
            told += max(truths, key=lambda other: decibels(shown[1:], truths[other][1:])) == name
    return Figure("directions_told_apart", told, "40 of 40", told == 40)


def return_figure(model: Model) -> Figure:
    """72 degrees to the right and back: the last frame against the first of every scene of the place."""
    found = 0
    turn = np.array([[0, 0, 1, 0]] * 12 + [[0, 0, -1, 0]] * 12)
    for start in STARTS:
        last = visit(model, start, turn)[-1:]
        scenes = [
            picture(start.home, np.array([[s.x, s.z, s.azimuth, 0.0]]))
            for s in map(stance_of, start.home.spawns)
        ]
        found += int(np.argmax([decibels(last, scene) for scene in scenes])) == start.spawn
    return Figure("turn_and_back_returns", found, ">= 11 of 12", found >= 11)


def long_figure(model: Model) -> Figure:
    """60 chunks of mixed walking: colour, contrast and sharpness of the last 9 s against the truth's."""
    rows = []
    for number in range(LONG_WALKS):
        start = STARTS[(5 * number) % len(STARTS)]
        keys = random_keys((HELD_OUT, 5_000_000 + number), LONG_BLOCKS)
        truth = picture(start.home, pixel_stances(walk_from(start, keys))[-LONG_TAIL:])
        shown = visit(model, start, keys, number)[-LONG_TAIL:]
        rows.append([abs(a / b - 1) for a, b in zip(looks(shown), looks(truth), strict=True)])
    kept = sum(max(row) <= 0.25 for row in rows)
    value = {"kept": kept, "worst_share_off": [round(max(row), 3) for row in rows]}
    return Figure("long_walks_keep_their_look", value, ">= 9 of 10", kept >= 9)


def looks(frames: Pixels) -> list[float]:
    """Mean of each colour, contrast, sharpness."""
    x = as_float(frames)
    return [*x.mean(dim=(0, 1, 2)).tolist(), float(x.std(dim=(1, 2)).mean()), sharpness(frames)]


def rate_figure(model: Model) -> Figure:
    """Seconds of computing per second of video, all in: denoise, decode, encode, commit."""
    start = STARTS[0]
    keys = random_keys((HELD_OUT, 6_000_000), RATE_BLOCKS)
    first = picture(start.home, walk_from(start, keys[:0]).stances)[0]
    world = open_world(model, WorldSpec("rate", first, start.home.prompt, 0), make_caches())
    seconds = []
    for number, block in enumerate(keys.reshape(-1, 3, 4).tolist()):
        begun = time.perf_counter()
        chunk = world.begin_chunk(start.home.prompt, [{"keys": letters(row)} for row in block])
        for _ in chunk.forwards():
            pass
        encode_chunk(chunk.decode(), "h264", FPS, max(0, 12 * number - 3))
        chunk.write()
        world.commit()
        seconds.append(time.perf_counter() - begun)
    world.close()
    settled = seconds[4:]
    value = round(float(np.median(settled)) / (12 / FPS), 3)
    return Figure(
        f"real_time_factor_{torch.get_num_threads()}_threads", value, "<= 0.5, aim 0.25", value <= 0.5
    )


def figures(folder: Path = CHECKPOINT) -> Iterator[Figure]:
    """All of them, one after another."""
    model = load_model(folder)
    yield codec_figure(model)
    yield rate_figure(model)
    yield from walk_figures(held_out_visits(model))
    yield direction_figure(model)
    yield return_figure(model)
    yield long_figure(model)


def main() -> None:
    """Print the figures."""
    for figure in figures(Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKPOINT):
        sys.stdout.write(figure.json_line() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
