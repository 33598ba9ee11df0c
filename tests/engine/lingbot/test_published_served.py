"""The published layout behind a real server, its worker in a process of its own, and offline beside it."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from app.bootstrap import build_engine
from app.cli import cli
from app.settings import Settings
from tests.app.conftest import running
from tests.engine.lingbot.published_layout import CARD

FRAMES = [[["w"], ["w"], ["l"]], [["d"], [], ["i"]]]


async def test_a_served_session_and_generate_give_the_same_bytes(published: Path, tmp_path: Path) -> None:
    picture = tmp_path / "first.png"
    pixels = np.random.default_rng(2).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(picture)
    engine = build_engine(Settings(model=str(published), threads=1))
    async with (
        running(engine, start_timeout_s=100) as server,
        server.client.stream(**session(pixels)) as stream,
    ):
        assert stream.video["config"]["model"] == CARD["name"]
        streamed = b"".join([(await stream.chunk()).data for _ in FRAMES])
        await stream.done()
    walk = tmp_path / "walk.jsonl"
    walk.write_text("\n".join(json.dumps({"event_id": n, "frames": f}) for n, f in enumerate(FRAMES)))
    options = ["--image", picture, "--prompt", "a meadow", "--seed", 4, "--actions", walk]
    model = ["--model", published, "--threads", 1]
    done = CliRunner().invoke(cli, ["generate", *map(str, [tmp_path / "v.mp4", *options, *model])])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "v.mp4").read_bytes() == streamed


def session(pixels: np.ndarray[Any, Any]) -> dict[str, Any]:
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    url = "data:image/png;base64," + base64.b64encode(png.getvalue()).decode()
    return {
        "prompt": "a meadow",
        "image_reference": {"image_url": url},
        "seed": 4,
        "num_frames": 21,
        "extra_params": {"camera_action_script": FRAMES, "pace_to_media_time": False},
    }
