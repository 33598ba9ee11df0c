"""Draws what the served tiny world shows under the truth, and a clip: `python -m engine.tiny.sheets`.

Each pair of rows has the renderer above and the world below, one picture per chunk or per half chunk.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.checkpoint.load import load_model
from engine.tiny.figures import CHECKPOINT
from engine.tiny.visits import STARTS, Start, random_keys, truth_of, visit, walk_from
from engine.world.model import Model

FORWARD, RIGHT, LEFT = (1, 0, 0, 0), (0, 0, 1, 0), (0, 0, -1, 0)
SHEETS = {
    "forward": np.array([FORWARD] * 24),
    "turning": np.array([RIGHT] * 24),
    "turn-and-back": np.array([RIGHT] * 12 + [LEFT] * 12),
}
SHOWN_STARTS = (STARTS[0], STARTS[3], STARTS[5], STARTS[6], STARTS[8], STARTS[11])
CLIP_SCALE, CLIP_FPS = 4, 16


def sheet(model: Model, walks: list[tuple[Start, NDArray[np.int64]]], every: int) -> Image.Image:
    """A pair of rows for each walk, a picture each `every` frames."""
    rows = []
    for start, keys in walks:
        for frames in (truth_of(start, walk_from(start, keys)), visit(model, start, keys)):
            rows.append(np.concatenate(list(frames[::every]), axis=1))
        rows.append(np.full((4, rows[-1].shape[1], 3), 255, dtype=np.uint8))
    return Image.fromarray(np.concatenate(rows[:-1]))


def save_sheets(model: Model, folder: Path) -> None:
    """forward, turning, turn-and-back, and twenty chunks of mixed walking."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, keys in SHEETS.items():
        sheet(model, [(start, keys) for start in SHOWN_STARTS], 8).save(folder / f"{name}.png", optimize=True)
    long = [(start, random_keys((7, number), 20)) for number, start in enumerate(SHOWN_STARTS)]
    sheet(model, long, 18).save(folder / "twenty-chunks.png", optimize=True)


def save_clip(model: Model, path: Path) -> None:
    """Half a minute through the three places, scaled up smoothly: the world alone, as a visitor sees it."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(CLIP_FPS))
        stream.width, stream.height = 96 * CLIP_SCALE, 64 * CLIP_SCALE
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "24", "preset": "slow"}
        for number, start in enumerate((STARTS[0], STARTS[6], STARTS[8])):
            for frame in visit(model, start, random_keys((8, number), 14)):
                large = Image.fromarray(frame).resize((stream.width, stream.height), Image.Resampling.BICUBIC)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(large), format="rgb24")))
        container.mux(stream.encode())


def main() -> None:
    """Write to docs/tiny-world, or to the folder given."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKPOINT.parents[1] / "docs" / "tiny-world"
    model = load_model(Path(sys.argv[2]) if len(sys.argv) > 2 else CHECKPOINT)
    save_sheets(model, folder)
    save_clip(model, folder / "walk.mp4")


if __name__ == "__main__":
    main()
