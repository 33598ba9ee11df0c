import json

import numpy as np
import pytest
import torch

from engine.tiny.figures import Visit, looks, mean_picture, over, walk_figures
from engine.tiny.visits import STARTS, random_keys, sharpness, truth_of, walk_from

torch.set_num_threads(1)


def visits(kind: str) -> list[Visit]:
    out = []
    for number in range(2):
        start, keys = STARTS[4 * number], random_keys((1, number), 8)
        truth = truth_of(start, walk_from(start, keys))
        wrong = truth_of(start, walk_from(start, -keys))
        shown = truth if kind == "perfect" else np.broadcast_to(truth[:1], truth.shape).copy()
        out.append(Visit(start, truth, shown, wrong))
    return out


def test_a_perfect_world_reaches_every_figure_of_the_walks() -> None:
    found = list(walk_figures(visits("perfect")))
    assert [figure.figure for figure in found if not figure.reached] == []
    assert json.loads(found[0].json_line())["value"] == [100.0] * 8


def test_a_world_that_stands_still_reaches_almost_none() -> None:
    missed = {figure.figure for figure in walk_figures(visits("still")) if not figure.reached}
    assert "over_first_frame_db" in missed
    assert "right_over_mirrored_db" in missed


def test_a_margin_counts_the_worst_chunk() -> None:
    assert over("x", [20.0, 18.0], [16.0, 15.5], 3.0, 2).reached is False
    assert over("x", [20.0, 18.0], [16.0, 15.5], 3.0, 1).reached is True


def test_looks_are_colour_contrast_and_sharpness() -> None:
    flat = np.full((2, 4, 4, 3), 51, dtype=np.uint8)
    np.testing.assert_allclose(looks(flat), [0.2, 0.2, 0.2, 0.0, 0.0], atol=1e-6)


def test_the_mean_picture_has_no_landmark_left() -> None:
    picture = mean_picture(0, 64)
    assert picture.shape == (1, 64, 96, 3)
    assert float(np.abs(np.diff(picture.astype(int), axis=2)).max()) < 40


def test_sharpness_is_the_energy_of_the_laplacian() -> None:
    dot = np.zeros((1, 5, 5, 3), dtype=np.uint8)
    dot[0, 2, 2] = 255
    # inside the border: 4 at the dot, -1 at its four neighbours, 0 at the corners
    assert sharpness(dot) == pytest.approx((16 + 4) / 9)
