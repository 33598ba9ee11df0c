"""The demo with the tiny world that ships: what a newcomer sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from demo_page import difference
from demo_server import Server
from PIL import Image

SCENES = Path(__file__).parents[2] / "checkpoints" / "tiny" / "scenes"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("tiny"), engine="native", threads="1") as server:
        yield server


def test_the_place_is_seen_before_play_and_turns_with_a_key(open_demo: Any) -> None:
    demo = open_demo("scene=desert-2&seed=1", fps=16)
    demo.until("document.querySelector('.veil').dataset.picture === 'true'")
    scene = np.asarray(Image.open(SCENES / "desert-2.png").convert("RGB"))
    preview = demo.picture()
    assert difference(scene, preview) < 6
    assert demo.page.get_by_text("tiny world").count() > 0

    demo.play()
    assert difference(scene, demo.picture()) < 25  # the walk begins where the picture was taken
    demo.wait_for_chunks(3)
    still = demo.picture()
    demo.page.keyboard.down("KeyL")
    demo.wait_until(lambda: difference(still, demo.picture()) > 8, "another view after a turn")
    demo.page.keyboard.up("KeyL")
